import type { Rung } from '@anchorhold/protocol/rungs'
import type { Extras } from '@anchorhold/protocol/sessions'
import type { CellLimits, Lack } from '../cell.ts'
import type { ProgramName } from '../holes.ts'
import { installCommand, type ReadText } from '../install.ts'
import type { OwnTasks } from '../limits/limits.ts'
import type { Rlimits } from '../limits/rlimits.ts'
import type { SeccompArch } from '../seccomp.ts'
import type { Elevated } from './elevated.ts'
import type { Bind } from './root.ts'

/** What makes containers: Podman, or gVisor by itself. An engine is a set of arguments and files; the driver around it starts it
 *  in namespaces of its own, in which it is root and from which nothing of it can stay behind. */
export interface Engine {
  readonly rung: Rung
  /** The programs of others that make the container. */
  readonly programs: readonly ProgramName[]
  readonly lacks: (read: ReadText, has: (program: string) => boolean) => readonly Lack[]
  /** What it needs for itself of the cell's tasks. */
  readonly tasks: (limits: CellLimits) => OwnTasks
  /** Of the rlimits, those that the engine itself can live under; it sets the others inside. */
  readonly hostRlimits: readonly (keyof Rlimits)[]
  /** Of those, the ones that hold for the engine's processes alone: what is told of them inside means nothing. */
  readonly outsideRlimits: readonly (keyof Rlimits)[]
  /** Namespaces that it gets beyond user, mount and pid, as options of unshare(1). */
  readonly namespaces: readonly string[]
  /** Whether it takes only a short path for its folder, and terminals of the cell's own from there. */
  readonly wantsPlace: boolean
  /** Files that it reads, each with its content, by name in its folder. */
  files(plan: Plan): Readonly<Record<string, string>>
  /** Starts the container. Whatever it starts may outlive it, unless `stays` says that it lives as long as the container. */
  run(plan: Plan): readonly [string, ...string[]]
  readonly stays: boolean
  /** Of one that leaves: the file in its folder with what the container has said, and how that is read. */
  readonly said?: { readonly file: string; readonly read: (text: string) => string }
  /** Runs one more command in the container, on this terminal. What it reads beside its arguments goes into the file of that
   *  name in its folder. */
  onTerminal(plan: Plan, command: readonly string[], file: string): TerminalRun
  /** Its whole environment. */
  env(plan: Plan): Readonly<Record<string, string>>
  /** What a process inside must report of itself, lines of /proc/self/status and the like. */
  readonly posture: (plan: Plan) => readonly RegExp[]
  /** What an operator should know of its cells, in words. */
  readonly notes?: readonly string[]
}

export type TerminalRun = {
  readonly argv: readonly [string, ...string[]]
  readonly content: string
  /** What Ctrl-C is on the host's side of the terminal: a key like any other, or a signal to all that stand there. */
  readonly interrupt: 'key' | 'signal'
}

/** Everything that an engine has to know. */
export type Plan = {
  /** Where the engine sees its own folder, for whatever it keeps. */
  readonly folder: string
  readonly root: string
  readonly binds: readonly Bind[]
  readonly tmpBytes: number
  readonly rlimits: Rlimits
  /** How the users of the cell are those of the host: one for one, or with a range of the user's own below. */
  readonly users: Users
  /** Who the session's user is outside. */
  readonly owner: { readonly uid: number; readonly gid: number }
  readonly arch: SeccompArch
  readonly extras: Extras
  /** What it has of root's inside. */
  readonly elevated: Elevated | null
  readonly command: readonly [string, ...string[]]
}

/** With `single` the cell's one user is 0 inside and the session's own outside, since runc makes no container in which nobody is 0; it
 *  has no capability either way. With `range`
 *  it is 1000 inside, and 0 inside is somebody outside who owns nothing. */
export type Users = 'single' | 'range'

export const userInside = (users: Users) => (users === 'range' ? 1000 : 0)

/** Scratch of the cell's own, each as large as the limit. */
export const scratchPlaces = ['/tmp', '/var/tmp', '/dev/shm'] as const

export const lacksInit = (read: ReadText, has: (program: string) => boolean): readonly Lack[] =>
  has('catatonit')
    ? []
    : [
        {
          what: 'catatonit is not installed, which is the first process of a container',
          remedy: installCommand(read, 'catatonit'),
        },
      ]

export const path = '/usr/sbin:/usr/bin:/sbin:/bin'
