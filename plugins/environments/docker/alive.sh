# Whether the supervisor of a command runs: sh -c 'eval "$AC_RUN"' alive PREFIX
read -r me began user <"${1}leader" || exit 1
rest_of "/proc/$me"
set -- $line
[ $# -ge 20 ] && [ "${20}" = "$began" ] && [ "$1" != Z ]
