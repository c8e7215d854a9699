# Reports on a command whose supervisor is gone: sh -c 'eval "$AC_RUN"' tell PREFIX KEPT CODE
at=$1 kept=$2
[ -e "${at}leader" ] || exit 44
exceeded=0
[ ! -e "${at}exceeded" ] || exceeded=1
report "$3 $exceeded 0"
