#!/bin/sh
echo one > log.txt
echo wrote
