#!/bin/sh
wget -q -O /app/answer.txt http://api:8080/word.txt
