#!/bin/sh
cp text.txt /logs/artifacts/text.txt
