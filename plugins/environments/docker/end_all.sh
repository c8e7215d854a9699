# Ends everything in the sandbox but its first process: sh -c 'eval "$AC_RUN"' end TENTHS
# Prints how many there were. kill -1 is one step for the kernel: not even a fork bomb outruns it.
own_identity

# census: sets count to how many processes run here, without our own parts, which are nobody's leftovers.
census() {
    count=0
    for path in /proc/[0-9]*; do
        case ${path#/proc/} in 1 | "$own") continue ;; esac
        rest_of "$path"
        case $line in '' | Z* | X*) continue ;; esac
        if [ "$count" -lt 200 ] && variables_of "$path" |
            grep -q -e '^AGENTCOMPASS_COMMAND=keeper$' -e '^AC_RUN='; then
            continue
        fi
        count=$((count + 1))
    done
}

census
total=$count waited=0
if [ "$total" -gt 0 ] && [ "$1" -gt 0 ]; then
    kill -TERM -1 2>/dev/null
    while [ "$waited" -lt "$1" ] && [ "$count" -gt 0 ]; do
        nap 1
        waited=$((waited + 1))
        census
    done
fi
kill -KILL -1 2>/dev/null
echo "$total"
