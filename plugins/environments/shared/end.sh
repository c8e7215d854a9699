# Ends one command from outside of it: sh -c 'eval "$AC_RUN"' end PREFIX MARK TENTHS
# Its supervisor has time to write how it ended; when it does not, that is written here.
at=$1 mark=$2 tenths=$3
read -r me began user <"${at}leader" || exit 0
own_identity
helpers=$own spared=$me
end_members "$mark" "$me" "$began" "$tenths" || exit 1
tries=0
while [ "$tries" -lt 20 ] && [ -d "/proc/$me" ] && [ ! -e "${at}status" ]; do
    nap 1
    tries=$((tries + 1))
done
spared=
end_members "$mark" "$me" "$began" 0 || exit 1
case $at in
*/p/*) [ -e "${at}status" ] || { echo "137 0 0" >"${at}.status" && mv "${at}.status" "${at}status"; } ;;
esac
