import type { CreateSession } from '@anchorhold/protocol/api/sessions'
import type { Event } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Installation, until } from './installation.ts'

/** The same verbs by both doors: whatever one can do, so can the other. */
type Verb = 'interrupt' | 'pause' | 'resume' | 'stop' | 'start' | 'archive'
export interface Door {
  readonly name: string
  create(options: CreateSession): Promise<SessionId>
  verb(verb: Verb, id: SessionId): Promise<void>
  /** Stores a prompt and returns. */
  send(id: SessionId, text: string, options?: { readonly queue?: true; readonly png?: string }): Promise<void>
  requests(): Promise<string>
  answer(id: RequestId, answer: { readonly allow: string | null } | { readonly deny: string }): Promise<void>
  fork(id: SessionId): Promise<SessionId>
  purge(id: SessionId, confirm: string): Promise<boolean>
  search(words: string, session: SessionId): Promise<string>
  usage(id: SessionId): Promise<{ readonly calls: number; readonly simulated: number }>
  budget(id: SessionId, usd: string | null): Promise<void>
  model(id: SessionId, model: string): Promise<void>
  panic(): Promise<number>
}

export function bothDoors(it: () => Installation): { readonly cli: Door; readonly http: Door; readonly ok: Ok } {
  const ok: Ok = async (args) => {
    const { code, out, err } = await it().cli(args)
    if (code !== 0) throw new Error(`anchorhold ${args.join(' ')}: ${code} ${out}${err}`)
    return out
  }
  const cli: Door = {
    name: 'cli',
    async create({ prompt, ...options }) {
      const flags = Object.entries({
        '--workspace': options.workspace,
        '--name': options.name,
        '--tools': options.tools?.join(','),
        '--system-prompt': options.system_prompt,
        '--timeout': options.timeout_ms === undefined ? undefined : String(options.timeout_ms / 1000),
        '--budget': options.budget_micros === undefined ? undefined : String(options.budget_micros / 1e6),
      }).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]))
      const plain = [...(options.plan ? ['--plan'] : []), ...(options.workspace_settings === 'load' ? ['--load-settings'] : [])]
      const out = await ok(['run', '--detach', ...plain, ...flags, prompt!.text])
      return out.trim() as SessionId
    },
    async verb(verb, id) {
      await ok([verb, id])
    },
    async send(id, text, options = {}) {
      const more = [...(options.queue ? ['--queue'] : []), ...(options.png === undefined ? [] : ['--attach', options.png])]
      await ok(['send', '--detach', ...more, id, text])
    },
    requests: () => ok(['requests']),
    async answer(id, answer) {
      if ('deny' in answer) await ok(['deny', id, '--reason', answer.deny])
      else await ok(['allow', id, ...(answer.allow === null ? [] : ['--answer', answer.allow])])
    },
    fork: async (id) => (await ok(['fork', id])).trim() as SessionId,
    purge: async (id, confirm) => (await it().cli(['purge', id, '--confirm', confirm])).code === 0,
    search: (words, session) => ok(['search', '--session', session, words]),
    async usage(id) {
      const spent = JSON.parse(await ok(['usage', '--json', id])) as { total: { calls: number }; simulated: { calls: number } }
      return { calls: spent.total.calls, simulated: spent.simulated.calls }
    },
    async budget(id, usd) {
      await ok(['budget', id, usd ?? 'none'])
    },
    async model(id, model) {
      await ok(['model', id, model])
    },
    panic: async () => Number(/^(\d+) sessions? w/.exec(await ok(['panic']))?.[1]),
  }

  const http: Door = {
    name: 'http',
    create: async (body) => (await it().api.createSession({ body })).id,
    async verb(verb, id) {
      await it().api[verb]({ params: { id } })
    },
    async send(id, text, { queue, png } = {}) {
      const images = png === undefined ? [] : [{ media_type: 'image/png' as const, data: readFileSync(png).toString('base64') }]
      await it().api.prompt({ params: { id }, body: { text, images, ...(queue ? { mode: 'queue' as const } : {}) } })
    },
    requests: async () => JSON.stringify(await it().api.listRequests()),
    async answer(id, answer) {
      const { action } = await it().api.getRequest({ params: { id } })
      const question = action.kind === 'question' ? action.questions[0] : undefined
      const body =
        'deny' in answer
          ? { decision: 'deny' as const, reason: answer.deny }
          : {
              decision: 'allow' as const,
              ...(question === undefined
                ? {}
                : { answers: { [question.question]: question.options[Number(answer.allow) - 1]!.label } }),
            }
      await it().api.answerRequest({ params: { id }, body })
    },
    fork: async (id) => (await it().api.fork({ params: { id } })).id,
    purge: (id, confirm) =>
      it()
        .api.purgeSession({ params: { id }, body: { confirm } })
        .then(
          () => true,
          () => false,
        ),
    search: async (q, session) => JSON.stringify(await it().api.search({ query: { q, session } })),
    async usage(session) {
      const spent = await it().api.usage({ query: { session } })
      return { calls: spent.total.calls, simulated: spent.simulated.calls }
    },
    async budget(id, usd) {
      await it().api.changeSession({
        params: { id },
        body: { budget_micros: usd === null ? null : Math.round(Number(usd) * 1e6) },
      })
    },
    async model(id, model) {
      await it().api.changeSession({ params: { id }, body: { model } })
    },
    panic: async () => (await it().api.panic()).sessions,
  }
  return { cli, http, ok }
}
/** Runs a command that must end with 0. */
type Ok = (args: readonly string[]) => Promise<string>

export const ended = (event: Event) => event.type === 'turn.ended'
export const reason = (event: Event) => (event.type === 'turn.ended' ? event.body.reason : null)
export const types = (events: readonly Event[], ...wanted: readonly Event['type'][]) =>
  events.map(({ type }) => type).filter((type) => wanted.includes(type))
/** A command that runs until the file `go` is there, so that a test decides how long a tool takes. */
export const held = 'touch running; until [ -e go ]; do sleep 0.02; done'
export const letGo = (workspace: string) => writeFileSync(join(workspace, 'go'), '')

/** A session whose tool runs and waits to be let go. */
export async function atWork(it: Installation, then = ''): Promise<{ readonly id: SessionId; letGo(): void }> {
  const workspace = it.workspace()
  const { id } = await it.api.createSession({ body: { workspace, prompt: { text: `run \`${held}\`${then}` } } })
  // What the agent starts for it is there by then.
  await until(() => existsSync(join(workspace, 'running')))
  return { id, letGo: () => letGo(workspace) }
}

/** What the tests of verbs do with sessions. */
export function sessionsOf(it: () => Installation) {
  const session = (id: SessionId) => it().api.getSession({ params: { id } })
  return {
    session,
    last: async (id: SessionId) => (await session(id)).last_seq,
    /** A session at work: its tool runs and waits for `letGo`. */
    async busy(door: Door, then = ''): Promise<{ readonly id: SessionId; readonly workspace: string }> {
      const workspace = it().workspace()
      const id = await door.create({ workspace, prompt: { text: `run \`${held}\`${then}` } })
      // The agent has named its tool before anybody has judged it: that it runs shows where it runs.
      await until(() => existsSync(join(workspace, 'running')))
      return { id, workspace }
    },
    request: async (id: SessionId, after: number) =>
      (await it().event(id, after, ({ type }) => type === 'request.opened')) as Event & { type: 'request.opened' },
    /** All that happened in the session once the running turn has ended. */
    async afterTurn(id: SessionId, after: number): Promise<Event[]> {
      await it().event(id, after, ended)
      return (await it().log(id)).filter(({ seq }) => seq > after)
    },
    /** A whole turn of another session: time enough for anything that was going to happen. */
    meanwhile: () => it().run('run true'),
    /** An agent that rests still takes memory: two cores have better things to do. */
    async archiveAll(): Promise<void> {
      const { sessions } = await it().api.listSessions({ query: { limit: 500 } })
      await Promise.all(
        sessions.map(({ id }) =>
          it()
            .api.archive({ params: { id } })
            .catch(() => {}),
        ),
      )
    },
  }
}
