import type { SessionId } from '@anchorhold/protocol/ids'
import { FromTerminal, type TerminalSize, terminalPath } from '@anchorhold/protocol/terminal'
import { WebSocket } from 'ws'
import type { Installation } from './installation.ts'

const size: TerminalSize = { cols: 80, rows: 24 }
/** A terminal in a cell, as a browser has it. */
export type WebTerminal = {
  readonly shown: string
  readonly said: readonly FromTerminal[]
  readonly over: boolean
  type(text: string): void
  say(what: unknown): void
  leave(): void
}

/** A terminal, or the status that it was refused with. */
export function tryTerminal(
  it: Pick<Installation, 'url'>,
  id: SessionId,
  { headers, shell = null }: { readonly headers: Record<string, string>; readonly shell?: string | null },
): Promise<WebTerminal | number> {
  const socket = new WebSocket(`${it.url.replace('http', 'ws')}${terminalPath(id, size, shell)}`, { headers })
  let shown = ''
  let over = false
  const said: FromTerminal[] = []
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) shown += data.toString('utf8')
    else said.push(FromTerminal.parse(JSON.parse(data.toString('utf8'))))
  })
  socket.on('close', () => (over = true))
  socket.on('error', () => {})
  return new Promise((resolve) => {
    socket.once('unexpected-response', (_, response) => resolve(response.statusCode ?? 0))
    socket.once('open', () =>
      resolve({
        get shown() {
          return shown
        },
        get over() {
          return over
        },
        said,
        type: (text) => socket.send(Buffer.from(text)),
        say: (what) => socket.send(JSON.stringify(what)),
        leave: () => socket.terminate(),
      }),
    )
  })
}

export async function openTerminal(
  it: Pick<Installation, 'url' | 'token'>,
  id: SessionId,
  shell: string | null = null,
): Promise<WebTerminal> {
  const found = await tryTerminal(it, id, { headers: { authorization: `Bearer ${it.token}` }, shell })
  if (typeof found === 'number') throw new Error(`refused with ${found}`)
  return found
}
