# Blocks of a file: sh -c 'eval "$AC_RUN"' read FILE BLOCK SKIPPED COUNT
dd if="$1" bs="$2" skip="$3" count="$4" 2>/dev/null
