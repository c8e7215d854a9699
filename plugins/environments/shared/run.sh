# Runs one command and tells how it ended: sh -c 'eval "$AC_RUN"' run NAME, with AC_* in the environment.
# "exec" is waited for: standard input is a line to the worker, which ends the command by a word on it or
# by going away; the report goes to standard output. "detach" is on its own and leaves a status file.
# "lease" does so too, and is ended when nobody has asked for it for AC_LEASE looks.
what=$AC_KIND cwd=$AC_CWD limit=$AC_LIMIT kept=$AC_KEPT tenths=$AC_TENTHS command=$AC_COMMAND input=$AC_INPUT user=$AC_USER
mine=$1 home=${AC_HOME:-/.agentcompass} lease=${AC_LEASE:-0}
unset AC_RUN AC_KIND AC_CWD AC_LIMIT AC_KEPT AC_TENTHS AC_COMMAND AC_INPUT AC_USER AC_HOME AC_LEASE
until [ -d $home/p ]; do nap 05; done
exec 3<&0 4>&1 </dev/null >/dev/null
umask 077
case $what in
exec) at=$home/x/$mine. ;;
lease) at=$home/x/$mine/ ;;
*) at=$home/p/$mine/ ;;
esac
if [ "$what" != exec ]; then
    mkdir "$at" 2>/dev/null || {
        [ -d "$at" ] || { echo "broken: $at cannot be made" >&4 && exit 1; }
        until [ -e "${at}err" ]; do nap 05; done
        echo there >&4
        exit 0
    }
fi
own_identity
me=$own began=$born spared=$own
# records: what others need to find and to end the command, and where its output goes.
records() { echo "$me $began $user" >"${at}leader" && : >"${at}out" && : >"${at}err"; }
if ! records; then
    [ "$what" = exec ] || { echo "broken: $at cannot be written to" >&4 && exit 1; }
    # The disk is full: in memory, so that whoever filled it can tidy up.
    at=/dev/shm/.agentcompass-$mine.
    records || exit 1
    trap 'rm -f "${at}leader" "${at}out" "${at}err"' EXIT
fi 2>/dev/null
umask 022

# count_kills: sets kills to how many processes of the sandbox the kernel has killed for memory.
count_kills() {
    kills=0
    for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
        [ -r $file ] || continue
        while read -r key value; do [ "$key" != oom_kill ] || kills=$value; done <$file
    done
}

# look: ends the command when it has written more than it may.
look() {
    for file in out err; do
        [ $(($(wc -c <"${at}$file"))) -gt "$limit" ] || continue
        : >"${at}exceeded"
        end_members "$mine" "$me" "$began" 0
        exit
    done
}

# renew: ends the command when nobody has asked for it in so many looks.
renew() {
    idle=$((idle + 1))
    if [ -e "${at}asked" ]; then
        rm -f "${at}asked"
        idle=0
    elif [ "$idle" -ge "$lease" ]; then
        : >"${at}ended"
        end_members "$mine" "$me" "$began" "$tenths"
        exit
    fi
}

# watch: looks now and then.
watch() {
    own_identity
    helpers="$helpers $own"
    ticks=0 idle=0
    while :; do
        if [ "$ticks" -lt 20 ]; then nap 2; else AGENTCOMPASS_COMMAND=keeper sleep 1; fi
        ticks=$((ticks + 1))
        look
        [ "$lease" = 0 ] || renew
    done
}

# listen: looks when the worker says so; ends the command at its word, or when it is gone.
listen() {
    own_identity
    helpers="$helpers $own"
    while read -r word <&3 && [ "$word" = look ]; do look; done
    : >"${at}ended"
    end_members "$mine" "$me" "$began" "$tenths"
}

# cut_off FILE: shortens what outran its limit.
cut_off() {
    [ $(($(wc -c <"$1"))) -le "$limit" ] || dd if=/dev/null of="$1" bs=1 seek="$limit" count=0 2>/dev/null
}

count_kills
before=$kills
if [ "$what" = exec ]; then
    (listen) 4>&- &
    helper=$!
else
    (watch) 3<&- 4>&- &
    helper=$!
    echo started >&4
    exec 2>/dev/null 3<&- 4>&-
fi
# A signal to the whole group is for the command. Not set before the helper is there: one that has not got
# rid of what it inherits would swallow the signal that ends it, and then end what the command left running.
trap : TERM INT HUP QUIT
(
    cd "$cwd" || exit
    exec 3<&- 4>&-
    # Of all that is in the sandbox, the kernel shall kill commands first when memory runs out.
    { echo 500 >/proc/self/oom_score_adj; } 2>/dev/null
    eval "$command"
) <"${input:-/dev/null}" >>"${at}out" 2>>"${at}err"
code=$?
if [ -e "${at}ended" ] || [ -e "${at}exceeded" ]; then wait $helper; else kill $helper 2>/dev/null; fi
exceeded=0
if [ -e "${at}exceeded" ]; then
    exceeded=1
    cut_off "${at}out"
    cut_off "${at}err"
fi
count_kills
killed=$((kills > before))
if [ "$what" = exec ]; then
    report "$code $exceeded $killed" >&4
else
    # Again for a minute: a full disk may be what ended the command.
    tries=0
    until echo "$code $exceeded $killed" >"${at}.status" && mv "${at}.status" "${at}status"; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || exit 1
        sleep 1
    done
fi
