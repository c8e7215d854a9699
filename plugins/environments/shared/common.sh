# Which processes belong to a command, how they are ended, and how output is told. Only what POSIX sh and
# the smallest set of tools offer. A process belongs when it is in the session of the command's leader, carries the command's
# mark, or descends from one that does. One that has shed its mark and its parents belongs when it was
# born after the command began: nobody else claims it.

spared='' helpers=''

# own_identity: sets own and born to the process id and start time of this very shell, also of a subshell.
own_identity() {
    read -r line </proc/self/stat
    own=${line%% *}
    set -- ${line##*) }
    born=${20}
}

# rest_of FOLDER-IN-PROC: sets line to the fields of a process from its state on, empty when it is gone.
rest_of() {
    line=
    # Its name may hold anything, line feeds and brackets included: what counts is after the last one.
    { while IFS= read -r part || [ -n "$part" ]; do line=$part; done <"$1/stat"; } 2>/dev/null
    line=${line##*) }
}

# variables_of FOLDER-IN-PROC: a line each. Prints nothing for a process of another user.
variables_of() {
    tr '\0' '\n' 2>/dev/null <"$1/environ"
}

# members NAME LEADER SINCE: sets found to their ids; without those in $spared, what $helpers have
# started, and the dead.
members() {
    name=$1 leader=$2 since=$3
    found=' ' rows=
    for path in /proc/[0-9]*; do
        rest_of "$path"
        set -- $line
        [ $# -ge 20 ] || continue
        case $1 in Z | X) continue ;; esac
        pid=${path#/proc/}
        case " $spared $helpers " in *" $pid "*) continue ;; esac
        case " $helpers " in *" $2 "*) continue ;; esac
        rows="$rows $pid:$2"
        if [ "$4" = "$leader" ] || [ "$3" = "$leader" ]; then
            found="$found$pid "
        elif [ "${20}" -ge "$since" ] && [ "$2" != 0 ]; then
            mark=$(variables_of "$path" | grep '^AGENTCOMPASS_COMMAND=')
            case $mark in
            "AGENTCOMPASS_COMMAND=$name") found="$found$pid " ;;
            '') [ "$2" != 1 ] || found="$found$pid " ;;
            esac
        fi
    done
    grown=1
    while [ -n "$grown" ]; do
        grown=
        for row in $rows; do
            case $found in *" ${row%:*} "*) continue ;; esac
            case $found in *" ${row#*:} "*) found="$found${row%:*} " grown=1 ;; esac
        done
    done
}

# nap DIGITS: sleeps that fraction of a second, or a whole one where sleep knows no fractions.
nap() {
    AGENTCOMPASS_COMMAND=keeper sleep "0.$1" 2>/dev/null || AGENTCOMPASS_COMMAND=keeper sleep 1
}

# end_members NAME LEADER SINCE TENTHS: SIGTERM, and SIGKILL after so many tenths of a second, until
# nothing is left. Status 1 when something still is.
end_members() {
    members "$1" "$2" "$3"
    if [ "$4" -gt 0 ] && [ "$found" != ' ' ]; then
        kill -TERM $found 2>/dev/null
        kill -CONT $found 2>/dev/null
        waited=0
        while [ "$waited" -lt "$4" ] && [ "$found" != ' ' ]; do
            nap 1
            waited=$((waited + 1))
            members "$name" "$leader" "$since"
        done
    fi
    round=0
    while [ "$found" != ' ' ]; do
        [ "$round" -lt 50 ] || return 1
        kill -KILL $found 2>/dev/null
        round=$((round + 1))
        nap 02
        members "$name" "$leader" "$since"
    done
}

# ends FILE SIZE: the first $kept bytes, and the blocks of that size that its tail is in.
ends() {
    [ "$2" -gt 0 ] || return 0
    head -c $(($2 < kept ? $2 : kept)) <"$1"
    [ "$2" -gt "$kept" ] || return 0
    rest=$(($2 - kept))
    block=$((($2 - (rest < kept ? rest : kept)) / kept))
    dd if="$1" bs="$kept" skip="$block" count=2 2>/dev/null | head -c $(($2 - block * kept))
}

# size_of FILE: sets size.
size_of() {
    size=0
    [ ! -s "$1" ] || size=$(($(wc -c <"$1")))
}

# report VERDICT: a line with the verdict and the sizes of both streams below $at, then the ends of each.
report() {
    size_of "${at}out"
    out=$size
    size_of "${at}err"
    echo "report $1 $out $size"
    ends "${at}out" $out
    ends "${at}err" $size
}
