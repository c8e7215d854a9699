#!/bin/sh
cat given.txt >> log.txt
echo extended
