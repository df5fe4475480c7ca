import type { Event } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { keepersOf, processesOf, stillAlive } from './host.ts'
import { type Installation, installation, type InstallationOptions, until } from './installation.ts'
import { type Outside, outside } from './outside.ts'

/** What is asked for: a tool, a call of either scheme through the net window, and money. */
export const kinds = ['tool', 'http', 'https', 'spend'] as const
export type Kind = (typeof kinds)[number]

/** An installation in which every kind can be asked for: the net window stands before a server of ours. */
export type Askable = { readonly it: Installation; readonly out: Outside } & AsyncDisposable

export async function askingInstallation({ policy = '', ...more }: InstallationOptions = {}): Promise<Askable> {
  const out = await outside()
  const it = await installation({
    config: 'spare_keeper: false\n',
    policy: `${policy}rules:\n${out.asks.join('\n')}\n`,
    ...more,
  })
  return {
    it,
    out,
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]()
      await out[Symbol.asyncDispose]()
    },
  }
}

/** A session whose agent waits for an answer of this kind. */
export type Asking = {
  readonly kind: Kind
  readonly session: SessionId
  readonly request: RequestId
  readonly workspace: string
  /** What it left behind each time that it really happened. */
  times(): Promise<number>
}

/** A call of its own, by a program that waits for its answer. */
export const curl = (out: Outside, scheme: 'http' | 'https', path: string) => `curl -ksS ${out.url(scheme, path)}`

/** Starts a session and waits until what it wants is asked for. */
export async function ask(
  { it, out }: Pick<Askable, 'it' | 'out'>,
  kind: Kind,
  more: { readonly policy?: string } = {},
): Promise<Asking> {
  const path = `/${randomUUID()}`
  const workspace = it.workspace()
  const text = {
    tool: 'run `echo done >> happened`',
    http: `run \`${curl(out, 'http', path)}\``,
    https: `run \`${curl(out, 'https', path)}\``,
    spend: 'say paid for',
  }[kind]
  const options = {
    tool: { autonomy: 'supervised' as const },
    http: {},
    https: {},
    spend: { spend: 'ask' as const, budget_micros: 1 },
  }[kind]
  const { id: session } = await it.api.createSession({ body: { workspace, ...options, ...more, prompt: { text } } })
  const opened = (await it.event(session, 0, ({ type }) => type === 'request.opened')) as Event & { type: 'request.opened' }
  expect(opened.body.action.kind).toBe(kind === 'http' || kind === 'https' ? 'net' : kind)
  return {
    kind,
    session,
    request: opened.body.id,
    workspace,
    async times() {
      if (kind === 'tool') return linesOf(join(workspace, 'happened'))
      if (kind !== 'spend') return out.times(path)
      return (await it.log(session)).some(({ type }) => type === 'usage') ? 1 : 0
    },
  }
}

function linesOf(path: string): number {
  try {
    return readFileSync(path, 'utf8').trim().split('\n').length
  } catch {
    return 0
  }
}

export type Victim = 'keeper' | 'gate' | 'daemon' | 'all' | 'nobody'

/** Ends processes with SIGKILL, and brings back what nobody else does. */
export async function kill(it: Installation, victim: Victim): Promise<void> {
  const isGate = ({ argv }: { readonly argv: string }) => argv.includes('/gate.mjs')
  const daemon = (JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }).pid
  const all = victim === 'all'
  // A keeper takes its cell along: only the keeper itself is killed.
  const keepers = victim === 'keeper' || all ? keepersOf(it.state) : []
  const gates = victim === 'gate' || all ? processesOf(it.state, isGate).filter(isGate) : []
  for (const pid of [
    ...keepers.filter(({ argv }) => argv.includes('/keeper.mjs')).map(({ pid }) => pid),
    ...gates.map(({ pid }) => pid),
    ...(victim === 'daemon' || all ? [daemon] : []),
  ]) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has gone with another.
    }
  }
  await until(() => stillAlive([...keepers, ...gates]).length === 0)
  if (victim === 'gate')
    await until(() => processesOf(it.state, isGate).some((one) => isGate(one) && !gates.some(({ pid }) => pid === one.pid)))
  if (victim === 'daemon' || all) await it.up()
}

/** What must hold of every session, whatever happened to it. */
export function holdRequests(log: readonly Event[]): void {
  const of = <T extends Event['type']>(type: T) =>
    log.filter((event): event is Extract<Event, { type: T }> => event.type === type)
  const opened = of('request.opened').map(({ body }) => body.id)
  const answered = of('request.answered').map(({ body }) => body.id)
  expect(new Set(opened).size).toBe(opened.length)
  expect(new Set(answered).size).toBe(answered.length)
  const used = of('grant.used').map(({ body }) => body.request)
  const once = new Set(of('request.answered').flatMap(({ body }) => (body.answer.scope === 'session' ? [] : [body.id])))
  for (const id of used) expect(answered).toContain(id)
  expect(used.filter((id) => once.has(id)).length).toBe(new Set(used.filter((id) => once.has(id))).size)
  // What was answered is told.
  const told = new Set(of('request.told').map(({ body }) => body.id))
  for (const { body } of of('request.answered'))
    if (body.answer.decision !== 'withdrawn')
      expect({ id: body.id, told: told.has(body.id) }).toEqual({ id: body.id, told: true })
}
