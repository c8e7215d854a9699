# The user and group that commands run as.
echo "$(id -u) $(id -g)"
