# What a worker asks of a sandbox that it reaches by single calls: sh -c 'eval "$AC_RUN"' WORD ARGUMENT...
# Prints one answer in base64: a word, what belongs to it, and "end", by which a whole answer is known.
# Every word may be said again: a call whose answer was lost is repeated.
home=$AC_HOME kept=$AC_KEPT script=$AC_SCRIPT data=$AC_DATA word=$0
unset AC_RUN AC_SCRIPT AC_DATA

failed() {
    printf 'failed\n%s' "$*"
    printf '\nend'
    exit 0
}

# homes: makes where records are; an agent may have removed it.
homes() {
    mkdir -p "$home/x" "$home/p" || failed "$home cannot be made"
    chmod 1777 "$home" "$home/x" "$home/p"
}

# prepare FOLDER [keep]: makes what everything else needs; keeps $data as the variables of the sandbox.
# Answers with the work directory and the variables that were kept.
prepare() {
    homes
    folder=$1
    if [ -z "$folder" ]; then
        folder=$(pwd -P)
        [ "$folder" != / ] || folder=/workspace
    fi
    mkdir -p "$folder" 2>/dev/null || folder=${HOME:-/tmp}
    [ -z "$1" ] || [ "$folder" = "$1" ] || failed "the work directory $1 cannot be made"
    folder=$(cd "$folder" && pwd -P) || failed "the work directory $folder cannot be used"
    if [ "$2" = keep ]; then
        (umask 077 && printf %s "$data" | base64 -d >"$home/.variables") || failed "the variables cannot be kept"
        mv -f "$home/.variables" "$home/variables" || failed "the variables cannot be kept"
    fi
    printf 'ready\n%s\n' "$folder"
    [ ! -f "$home/variables" ] || cat "$home/variables"
}

# supervised AT: whether the supervisor of a command is alive. Sets user to whom the command runs as.
supervised() {
    user=
    [ -r "${1}leader" ] && read -r pid born_at user <"${1}leader" || return 1
    rest_of "/proc/$pid"
    set -- $line
    [ $# -ge 20 ] && [ "${20}" = "$born_at" ] && [ "$1" != Z ]
}

# launch AT MARK: starts a command under its supervisor unless somebody has; returns when its output is open.
launch() {
    if [ ! -d "$1" ]; then
        [ -d "$home/p" ] || homes
        export AC_RUN="$script" AGENTCOMPASS_COMMAND="$2"
        # In a session of its own: what ends this call shall not end the command.
        if [ -n "$AC_USER" ] && [ "$AC_USER" != "$(id -un)" ] && [ "$AC_USER" != "$(id -u)" ]; then
            [ "$(id -u)" = 0 ] || failed "commands run as $(id -un) here, and only root can run them as $AC_USER"
            id "$AC_USER" >/dev/null || failed "there is no user $AC_USER"
            setsid su -m -s /bin/sh -c 'eval "$AC_RUN"' "$AC_USER" run "$2" </dev/null >/dev/null 2>&1 &
        elif command -v setsid >/dev/null; then
            setsid sh -c 'eval "$AC_RUN"' run "$2" </dev/null >/dev/null 2>&1 &
        else
            sh -c 'eval "$AC_RUN"' run "$2" </dev/null >/dev/null 2>&1 &
        fi
        starter=$!
        unset AC_RUN
        export AGENTCOMPASS_COMMAND=keeper
        # Not for ever: a command may remove its records before this has seen them.
        tries=0
        until [ -e "${1}err" ] || [ "$tries" -ge 100 ]; do
            rest_of "/proc/$starter"
            case $line in
            '' | Z* | X*) [ -e "${1}err" ] || [ -d "$1" ] || failed "$1 cannot be made" && return ;;
            esac
            nap 02
            tries=$((tries + 1))
        done
    fi
}

# ended AT: sets code, exceeded and killed from the status file. Status 1 before the end.
ended() {
    [ -r "${1}status" ] && read -r code exceeded killed <"${1}status" || return 1
    # An agent may have written to it.
    case "$code.$exceeded.$killed" in
    *[!0-9.]* | .* | *..* | *.) code=1 exceeded=0 killed=0 ;;
    esac
}

# end_marked MARK: ends what carries the mark of a command whose records are gone, its supervisor too.
end_marked() {
    rounds=0 left=1
    while [ -n "$left" ] && [ "$rounds" -lt 50 ]; do
        left='' rounds=$((rounds + 1))
        for folder in /proc/[0-9]*; do
            rest_of "$folder"
            case $line in '' | Z* | X*) continue ;; esac
            variables_of "$folder" | grep -qx "AGENTCOMPASS_COMMAND=$1" || continue
            left=1
            kill -KILL "${folder#/proc/}"
        done
    done
}

# follow AT BUDGET: waits for the end of a command, but not longer than so many hundredths of a second; its
# report, or "running".
follow() {
    at=$1 spent=0 lost=0
    # Not with ":", whose failure would end this shell.
    true >"${at}asked"
    while :; do
        supervised "$at" && lost=0 || lost=$((lost + 1))
        if ended "$at"; then
            report "$code $exceeded $killed"
            return
        fi
        if [ "$lost" -ge 5 ]; then
            mark=${at%/}
            end_marked "${mark##*/}"
            report "137 0 0"
            return
        fi
        [ "$spent" -lt "$2" ] || break
        if [ "$spent" -lt 20 ]; then
            nap 02
            spent=$((spent + 2))
        elif [ "$spent" -lt 120 ]; then
            nap 1
            spent=$((spent + 10))
        else
            nap 5
            spent=$((spent + 50))
        fi
    done
    echo running
}

# state AT: "none", or whether it runs, how it ended, the sizes of both streams, its user, when it began.
state() {
    [ -r "${1}leader" ] || { echo none && return; }
    # Looked at before its status: a supervisor that is gone by now has written all it ever will.
    runs=0
    supervised "$1" && runs=1
    code=- exceeded=0 killed=0
    ! ended "$1" || runs=0
    size_of "${1}out"
    out=$size
    size_of "${1}err"
    echo "state $runs $code $exceeded $killed $out $size ${user:-0} $(stat -c %Y "${1}leader" || echo 0)"
}

# slice AT FILE BLOCK SKIPPED COUNT: blocks of a stream.
slice() {
    [ -r "${1}leader" ] || { echo none && return; }
    echo slice
    [ ! -r "$1$2" ] || dd if="$1$2" bs="$3" skip="$4" count="$5"
}

# stop AT MARK TENTHS: ends a command with all it started; one that has not begun yet never will.
stop() {
    if mkdir "$1"; then
        echo stopped
        return
    fi
    tries=0
    until [ -e "${1}leader" ] || [ "$tries" -ge 100 ]; do
        nap 05
        tries=$((tries + 1))
    done
    said=$(AC_RUN="$script" sh -c 'eval "$AC_RUN"' end "$@" 2>&1) || failed "${said:-something survives SIGKILL}"
    echo stopped
}

# get FILE MOST: a file of at most so many bytes, or its size.
get() {
    if [ -d "$1" ]; then
        echo folder
    elif [ -f "$1" ]; then
        [ -r "$1" ] || failed "$1 cannot be read"
        size=$(($(wc -c <"$1")))
        if [ "$size" -gt "$2" ]; then
            echo "large $size"
        else
            echo "file $size"
            cat "$1"
        fi
    elif [ -e "$1" ]; then
        echo other
    else
        echo none
    fi
}

# put FILE MODE [FROM]: makes a file of $data, or of one that was sent; a link at its path is replaced.
put() {
    [ -L "$1" ] || [ ! -d "$1" ] || failed "$1 is a folder"
    folder=${1%/*}/
    said=$(mkdir -p "$folder" 2>&1) || failed "$said"
    new=$folder.ac-$word-$$
    if [ -n "$3" ]; then
        # Nothing left to move: an earlier try has come this far.
        [ -e "$3" ] || [ ! -f "$1" ] || { echo done && return; }
        said=$(mv -f "$3" "$new" 2>&1) || failed "$said"
    else
        said=$( { (umask 077 && printf %s "$data" | base64 -d >"$new"); } 2>&1) || failed "$said"
    fi
    said=$(chmod "$2" "$new" 2>&1) || failed "$said"
    [ ! -L "$1" ] || rm -f "$1"
    said=$(mv -f "$new" "$1" 2>&1) || failed "$said"
    echo done
}

# unpack FOLDER ARCHIVE NAMES: merges an archive into a folder. NAMES lists its folders, each with a NUL
# behind: what stands in the place of one is removed, a link too, which tar might follow.
unpack() {
    said=$(mkdir -p "$1" 2>&1) || failed "$said"
    [ ! -s "$3" ] || AC_BELOW=$1 xargs -0 -n 64 sh -c '
        for name; do
            here=$AC_BELOW/$name
            if [ -L "$here" ] || { [ -e "$here" ] && [ ! -d "$here" ]; }; then rm -f "$here"; fi
        done' sh <"$3" || failed "the folders in $1 cannot be made"
    said=$(tar -xopf "$2" -C "$1" 2>&1) || failed "$said"
    rm -f "$2" "$3"
    echo done
}

# pack PATH ARCHIVE: a file or tree as an archive; answers with the path that links lead to.
pack() {
    [ -e "$1" ] || { echo none && return; }
    path=$(readlink -f "$1")
    [ -d "$path" ] || [ -f "$path" ] || { echo other && return; }
    said=$(tar -cf "$2" -C "${path%/*}/" "./${path##*/}" 2>&1)
    code=$?
    case "$code $said" in
    0*) ;;
    # GNU tar says so of a tree that changes meanwhile; the archive is whole.
    1*"changed as we read"* | 1*"removed before we read"*) ;;
    *) rm -f "$2" && failed "$said" ;;
    esac
    printf 'packed\n%s' "$path"
}

# others: sets found to all processes but this call and what it descends from, and count to how many of
# them are not parts of ours.
others() {
    found='' count=0
    for folder in /proc/[0-9]*; do
        rest_of "$folder"
        case $line in '' | Z* | X*) continue ;; esac
        pid=${folder#/proc/}
        case "$spared" in *" $pid "*) continue ;; esac
        set -- $line
        case " $$ $own " in *" $2 "*) continue ;; esac
        found="$found $pid"
        if [ "$count" -lt 200 ] && variables_of "$folder" |
            grep -q -e '^AGENTCOMPASS_COMMAND=keeper$' -e '^AGENTCOMPASS_COMMAND=sandbox$' -e '^AC_RUN='; then
            continue
        fi
        count=$((count + 1))
    done
}

# keepers: adds to spared what the sandbox lives by, when it is a command of ours. Only root's: who can forge that
# could do worse.
keepers() {
    for folder in /proc/[0-9]*; do
        variables_of "$folder" | grep -qx AGENTCOMPASS_COMMAND=sandbox || continue
        [ "$(stat -c %u "$folder")" = 0 ] || continue
        spared="$spared${folder#/proc/} "
    done
}

# end_all TENTHS: ends everything but what this call descends from, which the provider's own daemon is
# among, and what the sandbox lives by; says how many there were.
end_all() {
    tenths=$1
    own_identity
    spared=" 1 $own " pid=$own
    keepers
    while [ "$pid" -gt 1 ]; do
        rest_of "/proc/$pid"
        set -- $line
        pid=${2:-1}
        spared="$spared$pid "
    done
    others
    total=$count waited=0
    if [ "$tenths" -gt 0 ] && [ "$count" -gt 0 ]; then
        kill -TERM $found
        kill -CONT $found
        while [ "$waited" -lt "$tenths" ] && [ "$count" -gt 0 ]; do
            nap 1
            waited=$((waited + 1))
            others
        done
    fi
    rounds=0
    while [ -n "$found" ]; do
        [ "$rounds" -lt 50 ] || failed "something survives SIGKILL"
        # First still, then dead: what forks faster than it is ended would win otherwise.
        kill -STOP $found
        kill -KILL $found
        rounds=$((rounds + 1))
        nap 02
        others
    done
    echo "ended $total"
}

# discard FILE...: removes what was on its way.
discard() {
    rm -f "$@"
    echo done
}

begin() {
    launch "$1" "$2"
    follow "$1" "$3"
}

start() {
    launch "$1" "$2"
    # Another call may have begun to start it, and not come far yet.
    tries=0
    until [ -s "${1}leader" ] || [ "$tries" -ge 100 ]; do
        nap 02
        tries=$((tries + 1))
    done
    state "$1"
}

{
    "$word" "$@"
    printf '\nend'
} 2>/dev/null | base64
