# shells: bash dash
# args: serve --workers 2
case "$1" in
	serve)
		shift
		exec server --listen "$@"
		;;
	train) exec tool train ;;
	-*) exec server "$@" ;;
	*) exec "$@" ;;
esac
