import { exceedsJson } from '@anchorhold/protocol/json-shape'
import { printableLine } from '@anchorhold/core/printable'
import { Failure } from '@anchorhold/protocol/failures'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { type WorkspaceAsk, workspaceAnswers, workspaceBounds } from '@anchorhold/protocol/workspace'
import { z } from 'zod'
import { cellEnvironment } from '../cell-environment.ts'
import type { Cell } from '../cells/cell.ts'
import { outputOf, TooMuchSaid } from '../cells/output-of.ts'
import { lookInside } from './look-inside.ts'

export type WorkspacePlace = { readonly workspace: string; readonly folder: string; readonly files: { readonly node: string } }

const askMsMax = 30_000
/** The largest file that can be asked for, as JSON. */
const answerBounds = { partsMax: 50_000, depthMax: 10 }
const answerBytesMax = 32 * 1024 * 1024

const Looked = z.union([
  z.object({ answer: z.unknown() }),
  z.object({ refused: z.enum(['not_found', 'bad_request', 'too_large']), message: z.string().max(10_000) }),
])

/** Looks at a workspace from inside its cell: with the cell's user, behind its covers, and with the cell's git. Nothing of the host's
 *  reads what the folder holds. */
export async function askWorkspace(
  cell: Cell,
  { workspace, folder, files }: WorkspacePlace,
  asked: WorkspaceAsk,
): Promise<unknown> {
  const env = cellEnvironment({ home: cell.place(`${folder}/home`), path: [], env: {} })
  const process = cell.spawn([cell.place(files.node), '-e', `(${lookInside.toString()})()`], { env, cwd: cell.place(workspace) })
  process.stdin.end(JSON.stringify({ asked, bounds: workspaceBounds }))
  try {
    const { text } = await outputOf(process, { bytesMax: answerBytesMax, withinMs: askMsMax * slownessOf(cell.limits) })
    // Whatever is in the cell may answer in place of our program, and a schema lists what is wrong with each of a million values.
    if (exceedsJson(Buffer.from(text), answerBounds)) throw new TooMuchSaid()
    const looked = Looked.parse(JSON.parse(text))
    if (!('refused' in looked)) return workspaceAnswers[asked.ask].parse(looked.answer)
    throw new Failure(looked.refused, printableLine(looked.message))
  } catch (cause) {
    if (cause instanceof Failure) throw cause
    if (cause instanceof TooMuchSaid)
      throw new Failure('too_large', 'Cannot look at the workspace: the answer is too long', { cause })
    throw new Failure('cell_unavailable', 'Cannot look at the workspace: its cell gave no answer', { cause })
  }
}
