#!/bin/sh
echo draft > text.txt
