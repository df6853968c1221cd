package pyimport

import "strings"

// posixNames are the names of the module posix of CPython 3.11 on Linux with glibc. Their
// values are not known, except those of the models.
var posixNames = strings.Fields(`
	unshare setns CLONE_FS CLONE_NEWNS PIDFD_NONBLOCK grantpt unlockpt ptsname posix_openpt
	timerfd_create readinto
	CLD_CONTINUED CLD_DUMPED CLD_EXITED CLD_KILLED CLD_STOPPED CLD_TRAPPED DirEntry EFD_CLOEXEC
	EFD_NONBLOCK EFD_SEMAPHORE EX_CANTCREAT EX_CONFIG EX_DATAERR EX_IOERR EX_NOHOST EX_NOINPUT
	EX_NOPERM EX_NOUSER EX_OK EX_OSERR EX_OSFILE EX_PROTOCOL EX_SOFTWARE EX_TEMPFAIL
	EX_UNAVAILABLE EX_USAGE F_LOCK F_OK F_TEST F_TLOCK F_ULOCK GRND_NONBLOCK GRND_RANDOM
	MFD_ALLOW_SEALING MFD_CLOEXEC MFD_HUGETLB MFD_HUGE_16GB MFD_HUGE_16MB MFD_HUGE_1GB
	MFD_HUGE_1MB MFD_HUGE_256MB MFD_HUGE_2GB MFD_HUGE_2MB MFD_HUGE_32MB MFD_HUGE_512KB
	MFD_HUGE_512MB MFD_HUGE_64KB MFD_HUGE_8MB MFD_HUGE_MASK MFD_HUGE_SHIFT NGROUPS_MAX O_ACCMODE
	O_APPEND O_ASYNC O_CLOEXEC O_CREAT O_DIRECT O_DIRECTORY O_DSYNC O_EXCL O_FSYNC O_LARGEFILE
	O_NDELAY O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_RDONLY O_RDWR O_RSYNC O_SYNC
	O_TMPFILE O_TRUNC O_WRONLY POSIX_FADV_DONTNEED POSIX_FADV_NOREUSE POSIX_FADV_NORMAL
	POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED POSIX_SPAWN_CLOSE POSIX_SPAWN_DUP2
	POSIX_SPAWN_OPEN PRIO_PGRP PRIO_PROCESS PRIO_USER P_ALL P_PGID P_PID P_PIDFD RTLD_DEEPBIND
	RTLD_GLOBAL RTLD_LAZY RTLD_LOCAL RTLD_NODELETE RTLD_NOLOAD RTLD_NOW RWF_APPEND RWF_DSYNC
	RWF_HIPRI RWF_NOWAIT RWF_SYNC R_OK SCHED_BATCH SCHED_FIFO SCHED_IDLE SCHED_OTHER
	SCHED_RESET_ON_FORK SCHED_RR SEEK_DATA SEEK_HOLE SPLICE_F_MORE SPLICE_F_MOVE SPLICE_F_NONBLOCK
	ST_APPEND ST_MANDLOCK ST_NOATIME ST_NODEV ST_NODIRATIME ST_NOEXEC ST_NOSUID ST_RDONLY
	ST_RELATIME ST_SYNCHRONOUS ST_WRITE TMP_MAX WCONTINUED WCOREDUMP WEXITED WEXITSTATUS
	WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WNOWAIT WSTOPPED WSTOPSIG WTERMSIG
	WUNTRACED W_OK XATTR_CREATE XATTR_REPLACE XATTR_SIZE_MAX X_OK abort access chdir chmod chown
	chroot close closerange confstr confstr_names copy_file_range cpu_count ctermid
	device_encoding dup dup2 error eventfd eventfd_read eventfd_write execv execve fchdir fchmod
	fchown fdatasync fork forkpty fpathconf fspath fstat fstatvfs fsync ftruncate get_blocking
	get_inheritable get_terminal_size getcwd getcwdb getegid geteuid getgid getgrouplist getgroups
	getloadavg getlogin getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
	getsid getuid getxattr initgroups isatty kill killpg lchown link listdir listxattr lockf
	login_tty lseek lstat major makedev memfd_create minor mkdir mkfifo mknod nice open openpty
	pathconf pathconf_names pidfd_open pipe pipe2 posix_fadvise posix_fallocate posix_spawn
	posix_spawnp pread preadv putenv pwrite pwritev read readlink readv register_at_fork remove
	removexattr rename replace rmdir scandir sched_get_priority_max sched_get_priority_min
	sched_getaffinity sched_getparam sched_getscheduler sched_param sched_rr_get_interval
	sched_setaffinity sched_setparam sched_setscheduler sched_yield sendfile set_blocking
	set_inheritable setegid seteuid setgid setgroups setpgid setpgrp setpriority setregid
	setresgid setresuid setreuid setsid setuid setxattr splice stat stat_result statvfs
	statvfs_result strerror symlink sync sysconf sysconf_names system tcgetpgrp tcsetpgrp
	terminal_size times times_result truncate ttyname umask uname uname_result unlink unsetenv
	urandom utime wait wait3 wait4 waitid waitid_result waitpid waitstatus_to_exitcode write
	writev _exit`)

// timeNames are names that the module time has in all releases from CPython 3.6 on.
var timeNames = strings.Fields(`
	CLOCK_MONOTONIC CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME
	CLOCK_THREAD_CPUTIME_ID altzone asctime clock_getres clock_gettime clock_settime ctime daylight
	get_clock_info gmtime localtime mktime monotonic perf_counter process_time sleep strftime
	strptime struct_time time timezone tzname tzset`)

func init() {
	for mod, names := range map[string][]string{"posix": posixNames, "time": timeNames} {
		for _, name := range names {
			if _, ok := models[mod][name]; !ok {
				addModel(mod, name, func(*Run) value { return unknownf("%s.%s", mod, name) })
			}
		}
	}
}
