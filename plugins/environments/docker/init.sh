# The sandbox's first process: sh -c 'eval "$1"' init TEXT WORKDIR OWNER
# It adopts and reaps orphans. Nothing inside can end it: the kernel keeps signals from process 1 that
# it has no handler for, so there must be none.
begin_anew() { exec sh -c 'eval "$1"' init "$@"; }
# A shell that cannot fork gives up.
trap 'begin_anew "$@"' EXIT
umask 022
if [ ! -d "$2" ]; then
    mkdir -p "$2" && chown "$3" "$2"
fi
if [ ! -d /.agentcompass/p ]; then
    mkdir -p /.agentcompass/x && chmod 1777 /.agentcompass/x
    mkdir -m 1777 /.agentcompass/.p && chmod 1777 /.agentcompass/.p && mv /.agentcompass/.p /.agentcompass/p
fi
while :; do
    AGENTCOMPASS_COMMAND=keeper sleep 2147483647 &
    wait $!
    # Without a sleep to be had: wait for input that never comes, instead of running in circles.
    case $? in 126 | 127) read -r _ ;; esac
done
