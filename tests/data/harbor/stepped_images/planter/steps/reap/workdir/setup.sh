#!/bin/sh
id -un > /app/who-set-up
