import type { KnownHole } from '@anchorhold/protocol/doctor'
import type { ContainerEngine, LimitInForce, Rung } from '@anchorhold/protocol/rungs'
import type { Extras } from '@anchorhold/protocol/sessions'
import type { Readable, Writable } from 'node:stream'

/** One way to isolate a tree of processes.
 *  Invariant: `start` isolates exactly as `spec` says or throws `cell_unavailable`; no driver falls back on a weaker one. */
export interface CellDriver {
  readonly rung: Rung
  /** What this host lacks for it; empty when a real cell has just been seen to start. `signal` ends the looking. */
  missing(signal?: AbortSignal): Promise<readonly Lack[]>
  /** `signal` cancels the starting; a started cell lives until it is disposed of. */
  start(spec: CellSpec, signal: AbortSignal): Promise<Cell>
  /** Finds out again what it remembers of this machine, where that takes long. */
  relearn?(): Promise<void>
  /** What an operator should know of it beyond whether it starts, in words. */
  notes?(): readonly string[]
  /** What is known to be wrong with the releases of the programs that make its cells. */
  holes?(): Promise<readonly KnownHole[]>
}

/** Host files that a driver brings into a cell for itself: the Node that runs the program inside, and that program. */
export type CellFiles = {
  readonly node: string
  readonly inside: string
  /** The root folder of an image, for a rung that needs one where a cell names none. */
  readonly root?: string | undefined
  /** What makes containers; Podman without root where it is not said. */
  readonly engine?: ContainerEngine | undefined
}

/** Something the host lacks, and the command or step that mends it. */
export type Lack = { readonly what: string; readonly remedy: string }

/** A started cell. Disposing it ends every process inside, and may be done twice. */
export interface Cell extends AsyncDisposable {
  /** As they are really in force. */
  readonly limits: readonly LimitInForce[]
  /** Where a mounted host path is seen from inside. */
  place(hostPath: string): string
  spawn(argv: readonly [string, ...string[]], options: SpawnOptions): CellProcess
  /** Runs a command on this process's own terminal, with its size, its signals and its keys, and gives the exit code. */
  onTerminal(argv: readonly [string, ...string[]], options: SpawnOptions): Promise<number>
  /** Settles when a watcher had to end the cell, with the reason in words; never otherwise. */
  readonly ended: Promise<string>
  /** What a process of it that has ended may have ended of, in words: why the cell is being ended, or a limit that it has met. */
  readonly trouble: CellTrouble
}

export type CellTrouble = { readonly ending: string | null; readonly met: string | null }

export type SpawnOptions = {
  /** The whole environment inside; nothing is inherited. */
  readonly env: Readonly<Record<string, string>>
  /** A path inside the cell. */
  readonly cwd: string
}

/** A process inside a cell, by its standard streams. */
export interface CellProcess {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Null until it has ended. */
  readonly exitCode: number | null
  readonly killed: boolean
  kill(signal: NodeJS.Signals): boolean
  /** The exit code, or 128 + the signal's number. */
  readonly exited: Promise<number>
}

export type CellSpec = {
  readonly name: string
  /** Host folders, each seen inside at `target`. The drivers add what a rung itself needs. */
  readonly workspace: string
  readonly home: string
  /** The folder with the window sockets, seen read-only; null for a cell without windows. */
  readonly windows: string | null
  /** A folder of downloads that cells of the same workspace and owner share, writable and, where the rung can hold that, with nothing
   *  in it that can be run. Only bwrap, containers and gVisor have a place for it. */
  readonly caches?: string
  /** Read-only extras: the agent's program, toolchains. Targets lie under /opt, /run, /nix or the source's own path. */
  readonly mounts: readonly { readonly source: string; readonly target: string }[]
  /** `host` is no isolation of the network at all: only for who asks for it by name, and only where a driver can. */
  readonly network: 'none' | 'host'
  /** Where something else is seen than the host has: what a repository filter hides. Paths lie in `workspace`. */
  readonly covers: readonly Cover[]
  /** The root folder that a container or a machine gets instead of the host's own programs; null for those. */
  readonly root: string | null
  /** A folder of the host's for the driver alone: sockets, engine storage. It belongs to the cell's user, no cell sees it, and what
   *  a cell leaves in it is removed with it. */
  readonly scratch: string
  readonly limits: CellLimits
  /** What a session asked for beyond the usual; a rung that has not got it refuses. */
  readonly extras: Extras
  /** Devices of the host's that the cell may use. Only the wall of a machine asks for any, and only bwrap is one. */
  readonly devices?: readonly { readonly source: string; readonly target: string }[]
  /** Control group folders that this process may make groups in; empty where there are none. */
  readonly cgroups: readonly string[]
  /** Become this user first. Required when the caller is root: a cell started by root is no boundary. */
  readonly runAs: { readonly uid: number; readonly gid: number } | null
}

/** A file or folder of the workspace, and the file or folder of the host's that the cell sees in its place, read-only. */
export type Cover = { readonly path: string; readonly by: string }

export type CellLimits = {
  readonly memoryBytes: number
  readonly processesMax: number
  readonly cpus: number
  /** How much the workspace and home may grow. */
  readonly diskBytes: number
  readonly fileBytes: number
  readonly openFilesMax: number
  /** Size of /tmp and of /dev/shm, each. */
  readonly tmpBytes: number
}
