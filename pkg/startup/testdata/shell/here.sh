# shells: bash dash
# args: x
cd "$(dirname "$0")"
HERE=$(pwd)
A="${HERE##*/}"
export A
B=$(cat <<END
in $A
  two
END
)
export B
exec server "$(basename "$0" .sh)"
