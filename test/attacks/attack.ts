import type { Cell, CellDriver, CellSpec } from '@anchorhold/keeper/cells/cell'
import type { LimitInForce, LimitName } from '@anchorhold/protocol/rungs'
import type { Finding } from '@anchorhold/protocol/proof'
import type { ChildProcessByStdio } from 'node:child_process'
import type { Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'

/** One attack on a cell, without a test framework: the suite carries it out, and so does `anchorhold prove`. */
export type Attack = {
  readonly name: string
  /** What a cell promises, in one sentence. */
  readonly promise: string
  /** What keeps the promise. */
  readonly guard: string
  /** Really attacks, and tells each finding as it comes. Throws when it could not attack at all. */
  run(on: Ground): AsyncIterable<Finding>
}

/** Where an attack takes place: one rung. Whatever was started on it ends with it. */
export interface Ground {
  readonly driver: CellDriver
  /** By name, so that an attack may know of a rung that is not there yet. */
  readonly rung: string
  /** Whose kernel answers the system calls of a cell: the host's, or one that the cell has for itself. */
  readonly kernel: 'host' | 'own'
  /** Whose files the root of a cell is put together from: the host's, or those of an image that was built from packages. */
  readonly root: 'host' | 'image'
  /** How long to wait for a cell to be ended before it counts as one that goes on. */
  readonly patienceMs: number
  /** Starts a keeper that an attack may kill: a process that makes a cell of this rung, runs a command in it, and lives with it.
   *  `more` are descriptors that it is started with, from 3 on. */
  launch(argv: readonly string[], more?: readonly ('ignore' | number)[]): ChildProcessByStdio<null, Readable, null>
  /** The ways in which limits can be held here: without control groups always, with them where root can hand some over. */
  readonly holds: readonly Hold[]
  cell(changes?: Partial<CellSpec>, hold?: Hold): Promise<AttackedCell>
}

export type Hold = 'control groups' | 'no control group'

/** Disposing it may be done twice. */
export interface AttackedCell extends AsyncDisposable {
  readonly cell: Cell
  readonly spec: CellSpec
  /** Where workspace and home are inside. */
  readonly workspace: string
  readonly home: string
  limit(name: LimitName): LimitInForce
  /** What a script inside wrote to both streams, in lines, and its exit code. It starts in the workspace. */
  sh(script: string): Promise<Outcome>
  /** perl-base is part of every Debian, and can make any system call. */
  perl(script: string, ...args: string[]): Promise<Outcome>
}

export type Outcome = { readonly lines: readonly string[]; readonly code: number }

/** Blocked when the cell answered exactly so. An attack must show that the cell really ran, so no answer is ever expected. */
export function judge(check: string, seen: unknown, expected: unknown): Finding {
  if (expected === undefined || ['""', '[]', '{}', 'null'].includes(JSON.stringify(expected)))
    throw new Error(`The check "${check}" expects nothing, and so would take a cell that did not run for a safe one`)
  return isDeepStrictEqual(seen, expected)
    ? { check, verdict: 'blocked', seen: inWords(seen) }
    : { check, verdict: 'open', seen: `${inWords(seen)} instead of ${inWords(expected)}` }
}

export function notApplicable(check: string, why: string): Finding {
  return { check, verdict: 'not applicable', seen: why }
}

/** For what the host's kernel must refuse, and a kernel of the cell's own may do: nothing of the host's is behind it. */
export function judgeByKernel(on: Ground, check: string, seen: readonly string[], expected: readonly string[]): Finding {
  const finding = judge(check, seen, expected)
  if (finding.verdict === 'blocked' || on.kernel === 'host' || seen.length !== expected.length) return finding
  return notApplicable(check, `the cell has a kernel of its own, and that one answered ${inWords(seen)}`)
}

const wordsMax = 600
function inWords(value: unknown): string {
  const whole = typeof value === 'string' ? value : JSON.stringify(value)
  return whole.length > wordsMax ? `${whole.slice(0, wordsMax)}…` : whole
}
