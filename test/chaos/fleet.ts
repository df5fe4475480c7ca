import { lockHolder } from '@anchorhold/link/lock'
import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect } from 'vitest'
import { keepersOf, processesOf, stillAlive } from '../e2e/host.ts'
import { type Installation, installation, script, textOf, until } from '../e2e/installation.ts'

export type Victim = 'daemon' | 'gate' | 'keeper' | 'all'

/** What a watcher of one session has seen, over every connection it had. */
type Watched = {
  readonly events: Event[]
  readonly said: Map<string, string>
  /** Where text was shown behind more than there was of it. */
  readonly gaps: string[]
  /** When it was given something to do, and when it last showed anything. */
  givenAt: number
  spokeAt: number
}

/** Sessions that never run out of work, each watched from its first event on by somebody who comes back after every cut. */
export interface Fleet extends AsyncDisposable {
  /** Gives everybody who is idle something to do, and waits until nine in ten speak, or speak again after they were cut off:
   *  an agent that was cut off several times waits ever longer before it tries again. */
  work(): Promise<void>
  /** Ends processes with SIGKILL, brings back what nobody else does, and waits until nothing of the cells is left. */
  kill(victim: Victim, random: () => number): Promise<Killed>
  /** Waits until everybody rests, and holds what was stored against what was shown, and against what agents remember. */
  reckon(): Promise<readonly Event[][]>
}

/** In milliseconds: until what was killed answered again (null for a keeper, which nobody needs before the next prompt), and until every
 *  process of its cells was gone (null where none was killed). And how many sessions had just been speaking. */
export type Killed = { readonly backMs: number | null; readonly goneMs: number | null; readonly speaking: number }

const wordMs = 20
const justMs = 500

/** So many sessions, each of whose turns goes on for so many words. */
export async function fleet(size: number, words: number): Promise<Fleet> {
  const it = await installation({ config: 'spare_keeper: false\n' })
  const watched = new Map<SessionId, Watched>()
  const end = new AbortController()
  const watchers: Promise<void>[] = []
  let tasks = 0
  let killedAt = 0
  /** Each begins with words of its own, by which an agent that is asked can say that it remembers it. */
  const task = () => {
    const steps = script(
      [
        { text: 'word '.repeat(words), pace_ms: wordMs },
        { tool_use: 'Bash', input: { command: 'echo done' } },
      ],
      { text: 'the end' },
    )
    return `task ${++tasks}: ${steps}`
  }
  for (let i = 0; i < size; i++) {
    const { id } = await it.api.createSession({ body: { prompt: { text: task() }, budget_micros: 1_000_000_000 } })
    const seen: Watched = { events: [], said: new Map(), gaps: [], givenAt: performance.now(), spokeAt: 0 }
    watched.set(id, seen)
    watchers.push(watch(it, id, seen, end.signal))
  }
  const state = async (id: SessionId) => it.api.getSession({ params: { id } })
  const rests = (id: SessionId) =>
    until(async () => {
      const { state: now, why, queued_prompts } = await state(id)
      expect(now === 'failed' ? why : null).toBeNull()
      return queued_prompts === 0 && (now === 'ready' || now === 'interrupted')
    })

  /** Something to do, where it has nothing. */
  async function give(id: SessionId): Promise<void> {
    const session = await state(id)
    expect(session.state === 'failed' ? session.why : null).toBeNull()
    if ((session.state === 'ready' || session.state === 'interrupted') && session.queued_prompts === 0) {
      watched.get(id)!.givenAt = performance.now()
      await it.api.prompt({ params: { id }, body: { text: task() } })
    }
  }

  /** Whatever has died meanwhile, the agent that goes on knows every task that was ever brought to its end. */
  async function remembers(id: SessionId): Promise<void> {
    // Should it have to be told of its last prompt once more, that is over with this one.
    if ((await state(id)).state === 'interrupted') await it.turn(id, 'say hello')
    await rests(id)
    const log = await it.log(id)
    const ends = log.filter(({ type }) => type === 'turn.started' || type === 'turn.ended' || type === 'prompt.again')
    const finished = ends.flatMap((event, index) => {
      const end = ends[index + 1]
      if (event.type !== 'turn.started' || end?.type !== 'turn.ended' || end.body.reason !== 'done') return []
      // What an agent is told again comes together with its next prompt, and before it; an answer names only how that begins.
      const again = ends.slice(0, index).findLastIndex(({ type }) => type !== 'prompt.again')
      const first = ends[again + 1]!
      const taken = first.type === 'prompt.again' ? first.body.id : event.body.prompt
      const prompt = log.find((one) => one.type === 'prompt' && one.body.id === taken)
      const word = prompt?.type === 'prompt' ? /^task \d+:/.exec(prompt.body.text)?.[0] : undefined
      return word === undefined ? [] : [word]
    })
    const answer = await it.turn(id, 'what did I ask you')
    expect(answer.at(-1)).toMatchObject({ type: 'turn.ended', body: { reason: 'done' } })
    const told = textOf(answer)
    expect({ id, forgotten: finished.filter((word) => !told.includes(word)) }).toEqual({ id, forgotten: [] })
    await rests(id)
  }

  return {
    async work() {
      // Some end while others begin; those are given more.
      await until(async () => {
        for (const [id, { events }] of watched) if (!isInTurn(events)) await give(id)
        const all = [...watched.values()]
        const speak = all.filter(({ events, givenAt, spokeAt }) => isInTurn(events) && spokeAt > Math.max(givenAt, killedAt))
        return speak.length >= 0.9 * size
      })
    },
    async kill(victim, random) {
      const target = [...watched.keys()][Math.floor(random() * size)]!
      // Somewhere in its turn: one that is not up yet has nothing to lose.
      if (victim === 'keeper' || victim === 'all') {
        await until(async () => {
          await give(target)
          return keepersOf(it.state, target).length > 0
        })
        await wait(random() * words * wordMs)
      }
      const gateLock = join(it.state, 'gate/gate.lock')
      const daemon = (JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }).pid
      const keepers = victim === 'keeper' ? keepersOf(it.state, target) : victim === 'all' ? keepersOf(it.state) : []
      const before = processesOf(it.state, ({ argv }) => argv.includes('/gate.mjs')).map(({ pid }) => pid)
      const speaking = [...watched.values()].filter(({ spokeAt }) => performance.now() - spokeAt < justMs).length
      // A keeper takes its cell along: only the keeper itself is killed.
      end9([
        ...keepers.filter(({ argv }) => argv.includes('/keeper.mjs')).map(({ pid }) => pid),
        ...(victim === 'gate' || victim === 'all' ? before : []),
        ...(victim === 'daemon' || victim === 'all' ? [daemon] : []),
      ])
      const since = (killedAt = performance.now())
      // Cheap to ask: a look through all processes would keep what is waited for from a core.
      const isNew = () => !before.includes(lockHolder(gateLock) ?? before[0]!)
      if (victim === 'gate') await until(async () => isNew() && (await it.api.health()).gate)
      if (victim === 'daemon' || victim === 'all') {
        await it.upByItself()
        await it.api.listSessions()
      }
      const backMs = victim === 'keeper' ? null : performance.now() - since
      await until(() => stillAlive(keepers).length === 0)
      return { backMs, goneMs: keepers.length === 0 ? null : performance.now() - since, speaking }
    },
    async reckon() {
      const logs: Event[][] = []
      for (const [id, seen] of watched) {
        await rests(id)
        await remembers(id)
        // Both of the same moment.
        const { log, cost_micros } = await until(async () => {
          const { cost_micros, last_seq } = await state(id)
          const log = await it.log(id)
          return log.length === last_seq ? { log, cost_micros } : null
        })
        await until(() => seen.events.length >= log.length)
        expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
        expect(seen.events.slice(0, log.length)).toEqual(log)
        expect(seen.gaps).toEqual([])
        nothingUnsaid(log, seen.said)
        const prompts = log.flatMap((event) => (event.type === 'prompt' ? [event.body.id] : []))
        expect(new Set(prompts).size).toBe(prompts.length)
        expect(prompts.toSorted()).toEqual(
          log.flatMap((event) => (event.type === 'prompt.queued' ? [event.body.id] : [])).toSorted(),
        )
        oneTurnAtATime(log)
        const calls = log.flatMap((event) => (event.type === 'usage' ? [event.body] : []))
        expect(new Set(calls.map(({ call }) => call)).size).toBe(calls.length)
        expect(cost_micros).toBe(Math.ceil(calls.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0) / 1000))
        logs.push(log)
      }
      return logs
    },
    async [Symbol.asyncDispose]() {
      end.abort()
      await Promise.all(watchers)
      await it.cli(['down', '--all'])
      // Of cells too: nothing outlives what was killed over it.
      await until(() => processesOf(it.state).length === 0)
      await it[Symbol.asyncDispose]()
    },
  }
}

/** No character that a watcher was shown is missing from what is stored. */
function nothingUnsaid(log: readonly Event[], said: ReadonlyMap<string, string>): void {
  const stored = new Map(
    log.flatMap((event) => (event.type === 'text' || event.type === 'thinking' ? [[event.body.block, event.body.text]] : [])),
  )
  for (const [block, text] of said)
    expect({ block, whole: (stored.get(block) ?? '').startsWith(text) }).toEqual({ block, whole: true })
}

const isInTurn = (log: readonly Event[]) =>
  log.findLast(({ type }) => type === 'turn.started' || endsTurn.has(type))?.type === 'turn.started'
const endsTurn: ReadonlySet<Event['type']> = new Set(['turn.ended', 'keeper.lost', 'keeper.left'])

function oneTurnAtATime(log: readonly Event[]): void {
  let open = 0
  for (const { seq, type } of log) {
    if (type === 'turn.started') open++
    if (endsTurn.has(type)) open = 0
    expect({ seq, open: open <= 1 }).toEqual({ seq, open: true })
  }
  expect(open).toBe(0)
}

/** Follows a session for good, over every daemon there is, and notes whatever it is shown. */
async function watch(it: Installation, id: SessionId, seen: Watched, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const note: Parameters<Installation['follow']>[2] = ({ event, live }) => {
      if (event !== undefined) seen.events.push(event)
      if (live !== undefined && live.type !== 'tool.progress') {
        const said = seen.said.get(live.block) ?? ''
        if (live.offset > said.length) seen.gaps.push(`${live.block}: ${live.offset} after ${said.length}`)
        seen.said.set(live.block, said.slice(0, live.offset) + live.text)
        seen.spokeAt = performance.now()
      }
      return false
    }
    await it.follow(id, seen.events.at(-1)?.seq ?? 0, note, signal).catch(() => wait(20))
  }
}

function end9(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
}
