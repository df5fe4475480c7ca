import type { Actor } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { ShellId, ShellOutput, type TerminalSize } from '@anchorhold/protocol/terminal'
import { z } from 'zod'
import { by, type Parts, type Reads, require, sessionFor } from '../parts.ts'
import { requireProof } from '../people/step-up.ts'
import { inCell } from './workspace.ts'

/** A shell in a session's cell, for the person who opened it. It belongs to the keeper: it outlives this daemon, and they find it again
 *  by its name. For others, who may read that name in the log, it is none. */
export interface Terminal {
  readonly shell: string
  /** What it shows, from as far back as it is kept; ends with the shell, and says why. */
  output(signal: AbortSignal): AsyncGenerator<Buffer, string>
  write(typed: Buffer): Promise<void>
  resize(size: TerminalSize): Promise<void>
  close(): Promise<void>
}

export async function openTerminal(
  parts: Reads & Pick<Parts, 'keepers' | 'now'>,
  actor: Actor,
  id: SessionId,
  { size, shell: known }: { readonly size: TerminalSize; readonly shell: string | null },
): Promise<Terminal> {
  require(parts, actor, 'session.shell', id)
  if (sessionFor(parts, id, 'enter').rung === 'none') requireProof(parts, actor, 'open a terminal on a machine without a wall')
  const resizeIt = async (shell: string, to: TerminalSize) =>
    void (await parts.keepers.do(id, { do: 'shell.size', shell, ...to, actor: actor.name }))
  const stands = known !== null && (await resizeIt(known, size).then(...whether))
  // Who comes back to one that has ended gets another.
  const shell = stands ? known : Opened.parse(await inCell(parts, id, { do: 'shell.open', ...size, ...by(actor) })).shell

  async function* output(signal: AbortSignal): AsyncGenerator<Buffer, string> {
    let after = 0
    while (!signal.aborted) {
      const { from, base64, ended } = ShellOutput.parse(await parts.keepers.do(id, { do: 'shell.read', shell, after }))
      const bytes = Buffer.from(base64, 'base64')
      after = from + bytes.length
      if (bytes.length > 0) yield bytes
      if (ended !== null) return ended
    }
    return 'It was left'
  }
  return {
    shell,
    output,
    write: async (typed) => void (await parts.keepers.do(id, { do: 'shell.write', shell, base64: typed.toString('base64') })),
    resize: (to) => resizeIt(shell, to),
    close: async () => void (await parts.keepers.do(id, { do: 'shell.close', shell, why: `Closed by ${actor.name}` })),
  }
}

/** Whether there was somebody to do it. */
const whether = [
  () => true,
  (error: unknown) => {
    if (error instanceof Failure) return false
    throw error
  },
] as const
const Opened = z.object({ shell: ShellId })
