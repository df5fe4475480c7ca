import { Failure } from '@anchorhold/protocol/failures'

/** What a cell may do, as paths of the host with every link in them followed: the kernel looks at where a path leads. */
export type SeatbeltPlan = {
  /** Files and folders that it reads and runs, beside those of the system. */
  readonly reads: readonly string[]
  /** Folders that it reads, runs and writes. */
  readonly writes: readonly string[]
  /** The folder of the windows; null for a cell without any. */
  readonly windows: string | null
  /** Of what it writes, what it does not. `hidden` is not seen either. */
  readonly covers: readonly { readonly path: string; readonly hidden: boolean }[]
}

/** The whole posture of a cell, in the language of sandbox-exec(1): what no line allows is refused, and of the lines that fit, the
 *  last one counts. There is no namespace: the cell sees paths as the host has them, where it may see them at all.
 *  Does not stop: attacks on the kernel, and on what the few services that it may look up do for it. */
export function seatbeltProfile({ reads, writes, windows, covers }: SeatbeltPlan): string {
  const programs = [...systemFolders, ...reads, ...writes]
  const seen = [...systemFolders, ...systemFiles, ...reads, ...writes, ...(windows === null ? [] : [windows])]
  return [
    '(version 1)',
    '(deny default)',
    rule('allow process-fork'),
    rule('allow process-exec file-map-executable', ...programs.flatMap(subpath)),
    rule('allow signal process-info*', '(target same-sandbox)'),
    rule('allow sysctl-read', ...sysctls),
    rule('allow mach-lookup', ...services.map((name) => `(global-name ${quoted(name)})`)),

    // Names of folders on the way to something, and nothing of what is in them.
    rule('allow file-read-metadata', ...ancestorsOf([...seen, ...systemLinks]).map(literal), ...systemLinks.map(literal)),
    rule('allow file-read*', literal('/'), ...seen.flatMap(subpath)),
    rule('allow file-read*', ...readDevices.map(literal)),
    rule('allow file-read* file-write-data', ...writeDevices.map(literal), subpathOf('/dev/fd')),
    // Only of a terminal that was handed to it: it can open no other.
    rule('allow file-ioctl', literal('/dev/tty'), '(regex #"^/dev/ttys[0-9]+$")'),
    rule('allow file-write*', ...writes.flatMap(subpath)),
    // Moved elsewhere, a folder would no longer be what the lines below speak of.
    rule(
      'deny file-write-unlink',
      ...writes.flatMap(spellings).map(literal),
      ...between(writes, covers).map((path) => anyhow(path, writes, '$')),
    ),
    rule('deny file-write-setugid', ...writes.flatMap(subpath)),
    rule('deny file-write* file-link', ...covers.map(({ path }) => anyhow(path, writes, '(/.*)?$'))),
    rule('deny file-read*', ...covers.filter(({ hidden }) => hidden).map(({ path }) => anyhow(path, writes, '(/.*)?$'))),

    ...(windows === null
      ? []
      : [
          rule('allow system-socket', '(socket-domain AF_UNIX)'),
          rule('allow network-outbound', ...spellings(windows).map((path) => `(remote unix-socket ${subpathOf(path)})`)),
        ]),
    '',
  ]
    .filter((line) => line !== null)
    .join('\n')
}

/** Nothing at all without a filter: such a rule would be for everything. */
function rule(head: string, ...filters: readonly string[]): string | null {
  if (head === 'allow process-fork') return `(${head})`
  const unique = [...new Set(filters)]
  return unique.length === 0 ? null : `(${head}\n${unique.map((filter) => `  ${filter}`).join('\n')})`
}

const literal = (path: string) => `(literal ${quoted(path)})`
const subpathOf = (path: string) => `(subpath ${quoted(path)})`
const subpath = (path: string) => spellings(path).map(subpathOf)

/** Letters with marks can be written in two ways, and a disk may have either. */
const spellings = (path: string): string[] => [...new Set([path, path.normalize('NFC'), path.normalize('NFD')])]

/** A string as the profile's language has it. */
export function quoted(text: string): string {
  // oxlint-disable-next-line no-control-regex -- these are what it is about
  if (/[\u0000-\u001f\u007f]/.test(text))
    throw unsayable(`a path with a control character cannot be named in it: ${JSON.stringify(text)}`)
  const string = `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  if (Buffer.byteLength(string) > stringBytesMax) throw unsayable(`a path is too long for it: ${text.slice(0, 200)}…`)
  return string
}

/** sandbox-exec refuses a profile with a longer one. */
const stringBytesMax = 1024

const unsayable = (why: string) =>
  new Failure('cell_unavailable', `Cannot describe a seatbelt cell: ${why}`, { hint: 'Use a folder with a plainer name' })

/** A path below a folder, however its letters are written: a disk may take capitals for small ones. The folder itself is known as it
 *  is, but for letters with marks. */
function anyhow(path: string, writes: readonly string[], tail: '$' | '(/.*)?$'): string {
  const folder = writes.find((each) => path.startsWith(`${each}/`)) ?? ''
  const [head, rest] = [folder, path.slice(folder.length)].map((each) => Array.from(each.normalize('NFC')))
  const letters = [...head!.map((letter) => oneOf([letter])), ...rest!.map((letter) => oneOf(cases(letter)))]
  return `(regex ${quoted(`^${letters.join('')}${tail}`)})`
}

const cases = (letter: string) => [letter, letter.toLowerCase(), letter.toUpperCase()]

function oneOf(letters: readonly string[]): string {
  const variants = [...new Set(letters.flatMap(spellings))]
  const escaped = variants.map((each) => each.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  if (escaped.length === 1) return escaped.join('')
  return variants.every((each) => /^[a-z]$/i.test(each)) ? `[${variants.join('')}]` : `(${escaped.join('|')})`
}

/** The folders between what may be written and what is covered in it. */
const between = (writes: readonly string[], covers: SeatbeltPlan['covers']) =>
  covers.flatMap(({ path }) =>
    ancestorsOf([path]).filter((ancestor) => writes.some((folder) => ancestor.startsWith(`${folder}/`))),
  )

function ancestorsOf(paths: readonly string[]): string[] {
  const found = new Set<string>()
  for (const path of paths.flatMap(spellings))
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) found.add(path.slice(0, end))
  return [...found].sort()
}

/** Programs and libraries of macOS, and of its command line tools. Not all of /System: below it the disk of the user is seen again. */
const systemFolders = [
  ...['/bin', '/sbin', '/usr/bin', '/usr/sbin', '/usr/lib', '/usr/libexec', '/usr/share'],
  ...['/System/Library', '/System/iOSSupport', '/System/Cryptexes', '/System/Volumes/Preboot/Cryptexes'],
  ...['/Library/Apple', '/Library/Developer/CommandLineTools'],
]

const systemFiles = [
  ...['/private/var/select', '/private/var/db/timezone', '/private/var/db/dyld'],
  ...['passwd', 'group', 'hosts', 'protocols', 'services', 'shells', 'localtime', 'paths', 'paths.d'].map(inEtc),
  ...['profile', 'bashrc', 'zshrc', 'zprofile', 'ssl/cert.pem', 'ssl/openssl.cnf'].map(inEtc),
]

function inEtc(name: string): string {
  return `/private/etc/${name}`
}

const systemLinks = ['/etc', '/tmp', '/var']

const readDevices = ['/dev/random', '/dev/urandom']
const writeDevices = ['/dev/null', '/dev/zero', '/dev/tty']

/** Who a user is, and what time it is. Neither the keychain, the pasteboard, windows, other programs nor the network. */
const services = ['com.apple.system.opendirectoryd.libinfo', 'com.apple.system.notification_center']

/** What the machine is. Not the list of processes, nor what they were started with. */
const sysctls = [
  ...['hw.', 'machdep.cpu.', 'security.mac.lockdown_mode_state'].map((name) => `(sysctl-name-prefix ${quoted(name)})`),
  ...[
    'argmax',
    'hostname',
    'maxfilesperproc',
    'maxproc',
    'ngroups',
    'osproductversion',
    'osrelease',
    'ostype',
    'osvariant_status',
  ]
    .concat(['osversion', 'secure_kernel', 'usrstack64', 'version', 'tcsm_available', 'tcsm_enable'])
    .map((name) => `(sysctl-name ${quoted(`kern.${name}`)})`),
  '(sysctl-name "vm.loadavg")',
  '(sysctl-name "sysctl.proc_cputype")',
]
