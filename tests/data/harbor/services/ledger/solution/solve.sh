#!/bin/sh
wget -q -O - http://db:8080/ledger.txt | cut -d ' ' -f 2 > /app/balance.txt
