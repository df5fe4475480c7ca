import { mkdir } from 'node:fs/promises'
import { Agent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import { join } from 'node:path'
import type { SessionId } from '@anchorhold/protocol/ids'
import { Failure } from '@anchorhold/protocol/failures'
import type { GateCommand } from '@anchorhold/protocol/link'
import { type ProviderParts, checkProvider, testProvider, upstream } from './providers.ts'
import { fileSecrets } from './secrets.ts'
import { rehearsalProvider } from './windows/model/rehearsal/provider.ts'
import { type CallLine, type Journal, modelWindow, type ModelWindow } from './windows/model/window.ts'

/** The process that serves every cell's windows, without the link that it is commanded over. */
export type Gate = {
  handle(command: Exclude<GateCommand, { do: 'leave' }>): Promise<unknown>
  close(): Promise<void>
}

export type GateParts = {
  /** The gate's own: its key, and the rehearsal provider's socket. */
  readonly folder: string
  readonly journal: Journal
  /** Where `{ env }` credentials are looked up, and nothing else. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly now?: () => number
  readonly log?: (line: CallLine) => void
}

/** Connections that are kept to each provider while nobody uses them. */
const idleConnectionsMax = 64

export async function gate(parts: GateParts): Promise<Gate> {
  await mkdir(parts.folder, { recursive: true, mode: 0o700 })
  const secrets = await fileSecrets(join(parts.folder, 'key'))
  const rehearsal = await rehearsalProvider(join(parts.folder, 'rehearsal.sock'))
  const kept = { keepAlive: true, maxFreeSockets: idleConnectionsMax }
  const agents = { http: new Agent(kept), https: new TlsAgent(kept) }
  const providers: ProviderParts = { secrets, env: parts.env, rehearsalSocket: rehearsal.path, agents }
  const windows = new Map<SessionId, Promise<ModelWindow>>()
  const closing = new Map<SessionId, Promise<void>>()

  async function open(command: Extract<GateCommand, { do: 'open' }>) {
    const terms = {
      upstream: upstream(command.provider, providers),
      capNanos: command.budget_nanos,
      spentNanos: command.spent_nanos,
      allow: new Set(command.rules.allow),
    }
    // A window that is on its way out would take the new one's socket along.
    await closing.get(command.session)
    const found = windows.get(command.session)
    if (found !== undefined) {
      const window = await found
      window.update(terms)
      return command.paused ? window.pause() : window.resume()
    }
    const { session, folder } = command
    const { journal, now = Date.now, log = () => {} } = parts
    const opening = modelWindow({ session, folder, terms, journal, now, log })
    windows.set(session, opening)
    try {
      const window = await opening
      if (command.paused) window.pause()
    } catch (cause) {
      windows.delete(session)
      if (cause instanceof Failure) throw cause
      throw new Failure('gate_unavailable', `Cannot open the windows of session "${session}" in "${folder}"`, { cause })
    }
  }

  async function close(session: SessionId): Promise<void> {
    const window = windows.get(session)
    if (window === undefined) return closing.get(session)
    windows.delete(session)
    const closed = window.then(
      (opened) => opened.close(),
      () => {},
    )
    closing.set(session, closed)
    await closed.finally(() => closing.delete(session))
  }
  const closeAll = () => Promise.all([...windows.keys()].map(close))

  async function windowOf(session: SessionId): Promise<ModelWindow> {
    const window = await windows.get(session)
    if (window === undefined) throw new Failure('not_found', `Session "${session}" has no open windows`)
    return window
  }

  return {
    async handle(command) {
      switch (command.do) {
        case 'ping':
          return { sessions: windows.size }
        case 'open':
          return open(command)
        case 'close':
          return close(command.session)
        case 'pause':
          return (await windowOf(command.session)).pause()
        case 'resume':
          return (await windowOf(command.session)).resume()
        case 'budget':
          return (await windowOf(command.session)).budget(command.budget_nanos)
        case 'panic':
          return { closed: (await closeAll()).length }
        case 'seal':
          return { box: secrets.seal(command.plaintext) }
        case 'check':
          return checkProvider(command.provider, providers)
        case 'test':
          return testProvider(command.provider, command.model, providers)
      }
    },
    async close() {
      await closeAll()
      await rehearsal.close()
      agents.http.destroy()
      agents.https.destroy()
    },
  }
}
