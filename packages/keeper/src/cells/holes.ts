import type { KnownHole } from '@anchorhold/protocol/doctor'

/** Programs of others that make cells. */
export type ProgramName = 'bwrap' | 'podman' | 'runc' | 'crun' | 'runsc'

/** A program as this machine has it. */
export type Installed = {
  readonly name: ProgramName
  readonly path: string
  /** What it says of its version. */
  readonly said: string
  /** Whether whoever starts it becomes its owner. */
  readonly isSetuid: boolean
  /** What its distribution has changed in it; null where that is not to be found. */
  readonly changelog: string | null
  /** Who runs it: a session's own user, or a daemon of root's. */
  readonly runs: 'rootless' | 'as root'
}

type Hole = {
  readonly program: ProgramName
  readonly ids: readonly [string, ...string[]]
  readonly lets: string
  readonly isIn: (version: Version, program: Installed) => boolean
  /** The releases without it, in words that follow "Install". */
  readonly without: string
  readonly touched: (program: Installed) => Pick<KnownHole, 'touched' | 'why'>
  /** A revision of a distribution's that is known to have the fix. Minimal systems leave the changelog out. */
  readonly mendedIn?: RegExp
}
type Version = readonly number[]

const notTouched = (why: string) => () => ({ touched: 'no', why }) as const

/** What is publicly known of these programs and would end a cell's isolation, had a cell to do with it. */
const holes: readonly Hole[] = [
  {
    program: 'bwrap',
    ids: ['CVE-2026-41163'],
    lets: 'lets a user of this machine become root where bwrap is set-user-id',
    isIn: (version) => isBelow(version, [0, 11, 2]),
    without: 'bubblewrap 0.11.2 or newer',
    touched: ({ isSetuid, path }) =>
      isSetuid
        ? { touched: 'yes', why: `"${path}" is set-user-id: take that away with: sudo chmod u-s ${path}` }
        : { touched: 'no', why: 'this one is not set-user-id' },
  },
  {
    program: 'podman',
    ids: ['CVE-2026-94603'],
    lets: 'lets an annotation of an image take every wall down',
    isIn: (version) => isBelow(version, [6, 1, 3]),
    without: 'Podman 6.1.3, or one newer than 6.2.0',
    touched: ({ runs }) => ({
      touched: 'no',
      why:
        runs === 'rootless'
          ? 'cells are made of a folder, and no image is run'
          : 'the only images that are run were made by Anchorhold on this machine, and have no annotation',
    }),
  },
  {
    program: 'podman',
    ids: ['CVE-2026-123876', 'CVE-2026-111361', 'CVE-2026-121885'],
    lets: 'lets sockets past its usual filter, takes images whose digest or signature is wrong, and mistakes one unit for another',
    isIn: (version) => version.join('.') === '6.2.0',
    without: 'Podman 6.1.3, or one newer than 6.2.0',
    touched: notTouched('cells bring a filter of their own, no image is pulled, and no unit is made'),
  },
  {
    program: 'runc',
    ids: ['CVE-2024-21626'],
    lets: 'lets a process out through a folder of the host that was left open',
    isIn: (version) => isBelow(version, [1, 1, 12]),
    without: 'runc 1.1.12 or newer, or crun',
    mendedIn: /\b1\.1\.5\+ds1-1\+deb12u[1-9]|\b1\.0\.0~rc93\+ds1-5\+deb11u[3-9]/,
    touched: ({ runs }) => ({
      touched: 'perhaps',
      why: `the agent is started in a cell that stands, which is one of the ways; who gets out is ${
        runs === 'rootless' ? "the session's own user, in namespaces that have nothing else" : 'root, or near it'
      }`,
    }),
  },
  {
    program: 'runc',
    ids: ['CVE-2025-31133', 'CVE-2025-52565', 'CVE-2025-52881'],
    lets: 'lets who swaps files while a container is being made mount or write what is outside of it',
    isIn: (version, { said }) =>
      isBelow(version, [1, 2, 8]) ||
      (isBelow([1, 2, 999], version) && isBelow(version, [1, 3, 3])) ||
      /\b1\.4\.0-rc\.?[12]\b/.test(said),
    without: 'runc 1.2.8, 1.3.3, 1.4.0 or newer, or crun',
    touched: notTouched("a cell's root is Anchorhold's own, and nothing of an agent's runs while a cell is being made"),
  },
  {
    program: 'runsc',
    ids: ['CVE-2026-96812'],
    lets: 'lets a cell that was given a character device of the host become root there',
    isIn: ([day = 0]) => day < 20_260_925,
    without: 'a release of gVisor that is newer than 25 September 2026',
    touched: notTouched('cells of this rung are given no device of the host, a graphics processor included'),
  },
]

/** The holes that are known in these programs, but for those that their distribution says it has mended.
 *  Does not stop: a program that was put in the place of the distribution's own, under its name. */
export function holesIn(programs: readonly (Installed | null)[]): readonly KnownHole[] {
  return programs.flatMap((program) => (program === null ? [] : holesOf(program)))
}

function holesOf(program: Installed): KnownHole[] {
  const { name, said, changelog } = program
  const known = holes.filter((hole) => hole.program === name)
  const found = versionOf(program)
  if (found === null) return known.length === 0 ? [] : [unreadable(program, known)]
  const { version, words } = found
  return known
    .filter(({ isIn }) => isIn(version, program))
    .flatMap((hole): KnownHole[] => {
      const ids = hole.mendedIn?.test(said) ? [] : hole.ids.filter((id) => changelog?.includes(id) !== true)
      if (ids.length === 0) return []
      const check = changelog === null ? `see what its changelog says of ${ids[0]}` : `its changelog does not name ${ids[0]}`
      return [
        {
          ids,
          what: `${nameOf(name)} ${words} ${hole.lets} (${ids.join(', ')}), unless your distribution has brought the fix: ${check}`,
          ...hole.touched(program),
          remedy: `Install ${hole.without}, or the security update of your distribution`,
        },
      ]
    })
}

/** What cannot be told is not taken for mended. */
function unreadable(program: Installed, known: readonly Hole[]): KnownHole {
  const isHarmless = known.every((hole) => hole.touched(program).touched === 'no')
  return {
    ids: [...new Set(known.flatMap(({ ids }) => ids))],
    what: `which release of ${nameOf(program.name)} this is cannot be read, so the holes that are known may be in it`,
    touched: isHarmless ? 'no' : 'perhaps',
    why: isHarmless ? 'none of those is met by the way in which cells are made' : 'not all of them can be ruled out',
    remedy: `Install a release of ${nameOf(program.name)} that says its version: "${program.path}" --version`,
  }
}

const nameOf = (name: ProgramName): string =>
  ({ bwrap: 'bubblewrap', podman: 'Podman', runsc: 'gVisor', runc: 'runc', crun: 'crun' })[name]

/** gVisor's releases are days; all others have numbers. */
function versionOf({ name, said }: Installed): { readonly version: Version; readonly words: string } | null {
  if (name === 'runsc') {
    const [, day] = /\b(20\d{6})\.\d/.exec(said) ?? []
    return day === undefined ? null : { version: [Number(day)], words: day }
  }
  const [words, ...numbers] = /\b(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?/.exec(said) ?? []
  return words === undefined ? null : { version: numbers.map((number) => Number(number ?? 0)), words }
}

function isBelow(version: Version, other: Version): boolean {
  const at = other.findIndex((number, place) => number !== (version[place] ?? 0))
  return at !== -1 && (version[at] ?? 0) < other[at]!
}
