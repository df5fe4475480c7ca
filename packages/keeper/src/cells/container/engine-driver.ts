import { Failure } from '@anchorhold/protocol/failures'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { Cell, CellDriver, CellSpec, Lack } from '../cell.ts'
import { lacksOnTrial } from '../trial.ts'
import { refusals } from './refusals.ts'

export type EngineDriver = {
  readonly rung: Rung
  /** What this host lacks, as far as that shows without starting a cell. */
  readonly lacks: () => readonly Lack[]
  /** Why this engine does not give such a cell, beyond why none does. */
  readonly refuses: (spec: CellSpec) => readonly Lack[]
  /** How long a first cell may take. */
  readonly probeTimeoutMs: number
  readonly startCell: (spec: CellSpec, unavailable: Unavailable, signal: AbortSignal) => Promise<Cell>
  readonly notes?: () => readonly string[]
  readonly holes: NonNullable<CellDriver['holes']>
}

/** What a cell that cannot be started is refused with. */
export type Unavailable = (lacks: readonly Lack[]) => Failure

/** The driver around an engine: nothing is started where something is missing, or is asked for that the engine has not got. */
export function engineDriver({ rung, lacks, refuses, probeTimeoutMs, startCell, notes, holes }: EngineDriver): CellDriver {
  const unavailable: Unavailable = (all) =>
    new Failure('cell_unavailable', `Cannot start a ${rung} cell: ${all.map(({ what }) => what).join('; ')}`, {
      hint: all.map(({ remedy }) => remedy).join('; '),
    })
  const start: CellDriver['start'] = async (spec, signal) => {
    const missing = [...lacks(), ...refusals(spec), ...refuses(spec)]
    if (missing.length > 0) throw unavailable(missing)
    signal.throwIfAborted()
    return startCell(spec, unavailable, signal)
  }
  return {
    rung,
    start,
    holes,
    ...(notes === undefined ? {} : { notes }),
    async missing(signal) {
      const missing = lacks()
      return missing.length > 0 ? missing : lacksOnTrial(start, probeTimeoutMs, signal)
    },
  }
}
