#!/bin/sh
echo ok > /app/result.txt
