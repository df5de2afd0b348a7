//! What a command might try, each in one line of shell, and where it must fail.
//!
//! `$W` is the workspace, `$O` a folder outside, `$H` the home folder, `$TCP`, `$UNIX`, `$H/socket` and
//! `$ABSTRACT` are sockets of the host, `$VICTIM` is one of its processes. Every line has an effect
//! that is harmless when it comes to pass, and succeeds only then.

/// One try.
pub(super) struct Try {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    /// Whether it may succeed in the full tier, and in the one without namespaces.
    pub(super) allowed: (bool, bool),
}

const fn refused(name: &'static str, script: &'static str) -> Try {
    Try { name, script, allowed: (false, false) }
}

/// Refused by mounts alone: the second tier cannot, and says so.
const fn mounts_only(name: &'static str, script: &'static str) -> Try {
    Try { name, script, allowed: (false, true) }
}

const fn allowed(name: &'static str, script: &'static str) -> Try {
    Try { name, script, allowed: (true, true) }
}

/// Every try, in an order in which none spoils a later one.
pub(super) const TRIES: &[Try] = &[
    // Files outside.
    refused("create-outside", "echo x >$O/new"),
    refused("append-outside", "echo x >>$O/file"),
    refused("truncate-outside", ": >$O/file"),
    refused("truncate-call", "perl -e 'exit !truncate($ARGV[0], 0)' $O/file"),
    refused("remove-outside", "rm $O/file"),
    refused("rename-outside", "mv $O/file $O/other"),
    refused("folder-outside", "mkdir $O/folder"),
    refused("pipe-outside", "mkfifo $O/pipe"),
    refused("link-outside", "ln -s /etc $O/link"),
    refused("through-a-link", "ln -s $O $W/out && echo x >$W/out/new"),
    refused("through-dots", "echo x >$W/../outside/new"),
    refused("through-proc", "echo x >/proc/self/root$O/new"),
    refused("through-cwd", "cd $O && echo x >/proc/self/cwd/new"),
    refused("hard-link-in", "ln $O/file $W/hard && echo x >>$W/hard"),
    refused("move-in", "mv $O/file $W/moved"),
    refused("sed-in-place", "sed -i s/was/is/ $O/file"),
    refused("tee", "echo x | tee $O/file"),
    refused("sort-o", "sort -o $O/file $O/file"),
    refused("awk", "awk 'BEGIN { print 1 > ARGV[1] }' $O/file"),
    refused("find-delete", "find $O -name file -delete && ! test -e $O/file"),
    refused(
        "git-diff-output",
        "git diff --no-index --output=$O/new $W/a /dev/null; test -e $O/new",
    ),
    refused("profile", "echo x >>$H/.bashrc"),
    refused("etc", "echo x >/etc/bridle-probe"),
    mounts_only("chmod-outside", "chmod 777 $O/file"),
    mounts_only(
        "utimes-outside",
        "touch -d 2001-01-01 $O/file; test $(stat -c %Y $O/file) -lt 1000000000",
    ),
    mounts_only("chmod-by-descriptor", "exec 3<$O/file; perl -e 'exit !chmod(0777, *STDIN)' <&3"),
    mounts_only(
        "xattr-outside",
        "perl -e 'exit(0 > syscall(188, $ARGV[0], \"user.x\", \"y\", 1, 0))' $O/file",
    ),
    allowed("read-outside", "cat $O/file"),
    // Keys.
    refused("read-key", "cat $H/.ssh/id"),
    mounts_only("list-keys", "test -n \"$(ls $H/.ssh)\""),
    refused("key-through-proc", "cat /proc/self/root$H/.ssh/id"),
    refused("read-host-environment", "tr '\\0' '\\n' </proc/$VICTIM/environ | grep -q ="),
    // Network and sockets.
    refused("tcp", "exec 3<>/dev/tcp/127.0.0.1/$TCP"),
    refused("udp", "echo x >/dev/udp/192.0.2.1/9"),
    Try {
        name: "own-loopback",
        script: "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") \
                 or exit 1; exit !IO::Socket::INET->new(PeerAddr => \"127.0.0.1:\" . $s->sockport)'",
        allowed: (true, false),
    },
    refused("packet", "perl -MSocket -e 'exit !socket(my $s, 17, SOCK_RAW, 3)'"),
    refused(
        "abstract-socket",
        "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1; \
         exit !connect($s, pack(\"Sa*\", AF_UNIX, \"\\0$ARGV[0]\"))' $ABSTRACT",
    ),
    refused(
        "socket-in-tmp",
        "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1; \
         exit !connect($s, pack_sockaddr_un($ARGV[0]))' $UNIX",
    ),
    Try {
        name: "socket-elsewhere",
        script: "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1; \
                 exit !connect($s, pack_sockaddr_un($ARGV[0]))' $H/socket",
        allowed: (true, false),
    },
    refused("sockets-in-run", "test -n \"$(find /run -type s)\""),
    allowed(
        "socket-pair",
        "perl -MSocket -e 'exit !socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0)'",
    ),
    // Other processes.
    refused("signal-outside", "kill -USR1 $VICTIM"),
    refused("kill-supervisor", "kill -9 $PPID && sleep 0.2 && false"),
    refused(
        "trace-supervisor",
        "perl -e 'exit(0 > syscall(101, 0x4206, $ARGV[0] + 0, 0, 0))' $PPID",
    ),
    // Ways out of namespaces and back to privileges.
    refused("user-namespace", "unshare -U true"),
    refused("mount-namespace", "unshare -m true"),
    refused("remount", "mount -o remount,rw,bind /"),
    refused("unmount", "umount $W/.git/config"),
    refused("bind", "mount --bind $O $W"),
    refused("chroot", "chroot / true"),
    refused("enter-namespace", "nsenter -t 1 -m true"),
    refused("host-name", "hostname bridle-probe"),
    refused("core-pattern", "cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern"),
    refused("sysrq", "echo h >/proc/sysrq-trigger"),
    refused("cgroup", "mkdir /sys/fs/cgroup/bridle-probe"),
    refused(
        "block-device",
        "for d in /dev/vd? /dev/sd? /dev/loop0; do test \"$(head -c 1 $d | wc -c)\" = 1 && exit 0; done; exit 1",
    ),
    refused("make-device", "mknod $W/device b 7 0"),
    refused("become-root", "setpriv --reuid=0 --clear-groups true && setpriv --reuid=4321 true"),
    refused(
        "capabilities",
        "grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status | grep -vq 0000000000000000",
    ),
    refused("new-privileges", "grep -q 'NoNewPrivs:.*0' /proc/self/status"),
    refused("no-filter", "grep -q 'Seccomp:.*0' /proc/self/status"),
    refused("keys-of-the-kernel", "perl -e 'exit(0 > syscall(250, 0, -3, 0))'"),
    refused("bpf", "perl -e 'exit(0 > syscall(321, 0, 0, 0))'"),
    refused("io-uring", "perl -e '$p = \"\\0\" x 120; exit(0 > syscall(425, 1, $p))'"),
    refused("descriptors", "test -n \"$(ls /proc/$$/fd | grep -vxE '0|1|2|255')\""),
    // Inside the workspace.
    allowed(
        "create-inside",
        "mkdir -p $W/d/e && echo x >$W/d/e/f && mv $W/d/e/f $W/g && rm -r $W/d",
    ),
    allowed("metadata-inside", "chmod 755 $W/a && touch -d 2001-01-01 $W/a"),
    allowed("cache", "echo x >$H/cache/file"),
    allowed("git-objects", "echo x >$W/.git/objects/probe && rm $W/.git/objects/probe"),
    mounts_only("git-config", "echo '# x' >>$W/.git/config"),
    mounts_only("git-config-command", "git -C $W config probe.x true"),
    mounts_only("git-hook", "echo x >$W/.git/hooks/pre-commit"),
    mounts_only("git-hook-mode", "chmod +x $W/.git/hooks/pre-commit.sample"),
    mounts_only("git-attributes", "echo x >$W/.git/info/attributes"),
    mounts_only("git-commondir", "echo /x >$W/.git/commondir && rm $W/.git/commondir"),
    mounts_only("configured-hook", "echo x >$W/tools/hooks/pre-push && rm $W/tools/hooks/pre-push"),
    mounts_only("move-configured", "mv $W/tools $W/tools2 && mv $W/tools2 $W/tools"),
    mounts_only("sub-hook", "echo x >$W/sub/.git/hooks/pre-commit"),
    mounts_only("sub-config", "echo '# x' >>$W/sub/.git/config"),
    mounts_only(
        "tasks",
        "mkdir -p $W/.vscode && echo x >$W/.vscode/tasks.json && rm -r $W/.vscode",
    ),
    mounts_only("tasks-by-rename", "mkdir $W/v && mv -T $W/v $W/.vscode && rm -r $W/.vscode"),
    mounts_only("tasks-by-link", "ln -sT $O $W/.vscode && rm $W/.vscode"),
    mounts_only("servers", "echo x >$W/.mcp.json && rm $W/.mcp.json"),
    mounts_only("own-config", "mkdir $W/.bridle && rmdir $W/.bridle"),
    mounts_only("idea", "echo x >$W/.idea/workspace.xml"),
    mounts_only("linked-agents", "rm $W/.claude && ln -s $O $W/.claude"),
    mounts_only("deep-tasks", "mkdir -p $W/x/y/.vscode && rm -r $W/x"),
    mounts_only("new-repository", "git init -q $W/n && rm -r $W/n"),
    mounts_only("move-sub", "mv $W/sub $W/sub2 && mv $W/sub2 $W/sub"),
    mounts_only("remove-hooks", "mv $W/.git/hooks $W/h && mv $W/h $W/.git/hooks"),
    allowed(
        "commit",
        "cd $W && echo x >b && git add b && git commit -qm b && git log --oneline | grep -q b",
    ),
    allowed("branch", "cd $W && git checkout -qb side && git stash list && git gc -q"),
    // Devices and terminals.
    allowed("null", "echo x >/dev/null && test $(head -c 4 /dev/urandom | wc -c) = 4"),
    allowed("terminal", "perl -e 'open(my $p, \"+<\", \"/dev/ptmx\") or exit 1; exit 0'"),
    refused(
        "host-memory-file",
        "echo x >/dev/shm/bridle-probe && test -e /dev/shm/bridle-probe && false",
    ),
    allowed("temporary", "f=$(mktemp) && echo x >$f && rm $f"),
    // Last, because it may not be let back.
    mounts_only("move-git", "mv $W/.git $W/git"),
];
