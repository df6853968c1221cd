# shells: bash dash
# args: --model m --gpu=2 -- rest of it
while [ $# -gt 0 ]; do
	case "$1" in
		--model) A="$2"; shift 2 ;;
		--gpu=*) B="${1#*=}"; shift ;;
		--) shift; break ;;
		*) shift ;;
	esac
done
export A B
exec server "$@"
