/** The first program of the guest, run by busybox. It mounts the root, starts the program inside as the cell's user, and from then on
 *  does what the keeper tells it line by line: what a session needs is not known when the machine is made and saved. It trusts the
 *  keeper; the agent's processes cannot reach its port. */
export const guestInit = `#!/bin/busybox sh
B=/bin/busybox
export PATH=/bin
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
echo "anchorhold: up"
for module in /modules/*; do $B insmod $module || echo "anchorhold: cannot load $module"; done
$B mkdir -p /low /up /runtime /new
$B mount -t devtmpfs dev /dev 2>/dev/null
$B mount -t erofs -o ro,nosuid,nodev /dev/vda /low
$B mount -t erofs -o ro,nosuid,nodev /dev/vdb /runtime
$B mount -t tmpfs -o size=4m,mode=755 up /up
$B mkdir /up/files /up/work
$B mount -t overlay -o lowerdir=/low,upperdir=/up/files,workdir=/up/work,nosuid,nodev root /new
$B mount -t proc -o nosuid,nodev,noexec proc /new/proc
$B mount -t sysfs -o ro,nosuid,nodev,noexec sysfs /new/sys
$B mount --move /dev /new/dev
$B mkdir -p /new/dev/pts /new/dev/shm
$B ln -s pts/ptmx /new/dev/ptmx 2>/dev/null
$B mount -t devpts -o nosuid,noexec,newinstance,mode=620,ptmxmode=666 devpts /new/dev/pts
for each in /dev/shm /tmp /var/tmp; do $B mount -t tmpfs -o size=1m,mode=1777,nosuid,nodev scratch /new$each; done
$B mount -t tmpfs -o size=1m,mode=755,nosuid,nodev run /new/run
$B mkdir -p /new/run/windows /new/run/cell
$B mount -t tmpfs -o size=64k,mode=755,uid=1000,gid=1000,nosuid,nodev,noexec windows /new/run/windows
$B mkdir -p /new/opt/machine
$B mount --bind /runtime /new/opt/machine
$B hostname cell
$B ip link set lo up
echo 0 > /proc/sys/kernel/printk
for port in /sys/class/virtio-ports/*; do
  case $($B cat $port/name) in
    channel) channel=/dev/\${port##*/} ;;
    control) control=/new/dev/\${port##*/} ;;
  esac
done
$B chown 1000:1000 /new$channel
$B chroot /new /opt/machine/busybox setpriv --nnp /opt/machine/busybox start-stop-daemon -S -c 1000:1000 \\
  -x /opt/machine/node -- --no-opt --no-maglev --no-sparkplug /opt/machine/inside.cjs --device $channel </dev/null &
inside=$!
while read -r line; do eval "$line"; done <>$control >&0 2>/dev/null &
echo "anchorhold: ready"
# Whatever an agent leaves behind is adopted by this process, and waiting for one child is waiting for all.
wait $inside
$B poweroff -f
`

/** Where the guest mounts the folder with all read-only mounts of a session. */
const mounts = '/mounts'

export type SessionSetup = {
  readonly nowMs: number
  readonly entropy: Buffer
  readonly tmpBytes: number
  readonly mounts: readonly { readonly target: string; readonly kind: 'file' | 'folder' }[]
}

/** What brings a restored machine to the present and into its session, one command a line. The last one answers. */
export function setupLines({ nowMs, entropy, tmpBytes, mounts: wanted }: SessionSetup): string[] {
  // More than 512 KiB at a time cannot be asked for (net/9p/trans_virtio.c).
  const share = (tag: string, options: string, target: string) =>
    `$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,${options},nosuid,nodev ${tag} ${target}`
  return [
    `ok=yes; must() { "$@" || ok="no: $*"; }`,
    `must $B date -u -s @${Math.floor(nowMs / 1000)} >/dev/null`,
    `echo ${entropy.toString('hex')} > /new/dev/urandom`,
    `must $B chroot /new /opt/machine/reseed`,
    ...['/tmp', '/var/tmp', '/dev/shm'].map((path) => `must $B mount -o remount,size=${tmpBytes} /new${path}`),
    `must ${share('workspace', 'cache=mmap', '/new/workspace')}`,
    `must ${share('home', 'cache=mmap', '/new/home/agent')}`,
    ...(wanted.length === 0 ? [] : [`$B mkdir -p ${mounts}`, `must ${share('mounts', 'ro,cache=loose', mounts)}`]),
    ...wanted.flatMap(({ target, kind }, index) => {
      const at = quoted(`/new${target}`)
      const parent = quoted(`/new${target.slice(0, target.lastIndexOf('/'))}`)
      const make = kind === 'folder' ? `must $B mkdir -p ${at}` : `must $B mkdir -p ${parent}; must $B touch ${at}`
      return [make, `must $B mount --bind ${mounts}/${index} ${at}`]
    }),
    `echo $ok`,
  ]
}

/** Once the relays stand, nobody inside can put anything beside them. */
export const sealLines = ['if $B mount -o remount,ro /new/run/windows; then echo yes; else echo no: windows; fi']

/** Before the machine is ended. */
export const syncLines = ['$B sync; echo yes']

/** For a shell; a newline would end the line, so it must have been refused before. */
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/** Becomes the command with the limits that a process inside may not exceed. */
export function underLimits(argv: readonly [string, ...string[]], limits: GuestLimits): [string, ...string[]] {
  const { processesMax, openFilesMax, fileBytes } = limits
  const script = [
    `ulimit -c 0 -n ${openFilesMax} -u ${processesMax} -f ${Math.ceil(fileBytes / 512)}`,
    // Looked for here: by itself this shell would take its own programs for those of the image.
    'case $1 in */*) _file=$1 ;; *) _file=; IFS=:',
    'for _folder in $PATH; do if [ -z "$_file" ] && [ -f "$_folder/$1" ] && [ -x "$_folder/$1" ]; then _file=$_folder/$1; fi; done ;; esac',
    'if [ -z "$_file" ]; then echo "$1: not found" >&2; exit 127; fi',
    // It counts itself in SHLVL, which nobody asked for.
    'shift; unset SHLVL OLDPWD',
    'exec "$_file" "$@"',
  ].join('\n')
  return ['/opt/machine/busybox', 'sh', '-c', script, 'cell', ...argv]
}

type GuestLimits = { readonly processesMax: number; readonly openFilesMax: number; readonly fileBytes: number }
