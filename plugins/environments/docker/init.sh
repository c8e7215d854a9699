# The sandbox's first process: sh -c 'eval "$1"' init TEXT SECONDS WORKDIR OWNER
# It adopts and reaps orphans, and ends with everything in here when nobody renews its SECONDS (0: never).
# Nothing inside can end it: the kernel keeps signals from process 1 that it has no handler for, so
# there must be none.
begin_anew() { exec sh -c 'eval "$1"' init "$@"; }
# A shell that cannot fork gives up. What is left of the time, and which renewal that was, goes on.
trap 'begin_anew "$@"' EXIT
umask 022
if [ ! -d "$3" ]; then
    mkdir -p "$3" && chown "$4" "$3"
fi
if [ ! -d /.agentcompass/p ]; then
    mkdir -p /.agentcompass/x && chmod 1777 /.agentcompass/x
    mkdir -m 1777 /.agentcompass/.p && chmod 1777 /.agentcompass/.p && mv /.agentcompass/.p /.agentcompass/p
fi

# clock: sets now to seconds of a clock that nothing in here can change, and that needs no program.
clock() {
    now=0
    read -r now rest </proc/uptime
    now=${now%%.*}
}

# look: sets seconds and stamp when a worker has renewed since; one half of a note is none.
look() {
    [ -f /.agentcompass/lease ] && read -r seconds stamp </.agentcompass/lease || return 1
    case $seconds in '' | *[!0-9]* | ???????????*) return 1 ;; esac
    [ "$seconds" -gt 0 ] && [ "$stamp" != "$known" ]
}

known=${5-} whole=$2
clock
last=$now
while :; do
    pause=2147483647
    if [ "$2" -gt 0 ]; then
        clock
        left=$(($2 - now + last)) last=$now
        if look; then
            known=$stamp whole=$seconds left=$seconds
        fi
        if [ "$left" -le 0 ]; then
            trap - EXIT
            exit 72
        fi
        set -- "$1" "$left" "$3" "$4" "$known"
        # Often enough that a renewal counts from about when it was made.
        pause=$((whole / 4 + 1))
        [ "$pause" -le 600 ] || pause=600
        [ "$pause" -le "$left" ] || pause=$left
    fi
    AGENTCOMPASS_COMMAND=keeper sleep "$pause" &
    wait $!
    # Without a sleep to be had: wait for input that never comes, instead of running in circles.
    case $? in 126 | 127) read -r _ ;; esac
done
