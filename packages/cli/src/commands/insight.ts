import type { SearchHit } from '@anchorhold/protocol/api/records'
import type { Session } from '@anchorhold/protocol/sessions'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { ago } from '../terminal.ts'
import { numberFrom } from '../flags/values.ts'

export function search(program: Command, context: Context): void {
  program
    .command('search')
    .summary('find words in everything that was said and done')
    .argument('<words...>')
    .option('-s, --session <session>', 'only in this one')
    .option('-l, --limit <n>', 'how many', numberFrom(1, 500), 20)
    .option('--json', 'one hit a line')
    .action(async (words: string[], options: { session?: string; limit: number; json?: true }) => {
      const daemon = await context.daemon()
      const session = options.session === undefined ? undefined : (await context.session(daemon, options.session)).id
      const { hits, sessions } = await daemon.api.search({
        query: { q: words.join(' '), limit: options.limit, ...(session === undefined ? {} : { session }) },
      })
      const { terminal } = context
      if (options.json) return hits.forEach((hit) => terminal.line(JSON.stringify(hit)))
      for (const { id, name, workspace } of sessions)
        terminal.line(`${id} ${terminal.foreign(name)} ${terminal.style('dim', terminal.foreign(workspace))}`)
      if (hits.length + sessions.length === 0) return terminal.line('Nothing found.')
      for (const { session: id, seq, type, at, session_name: name, excerpt } of toldOnce(hits, sessions)) {
        const about = [type, ago(at), ...(name === null ? [] : [terminal.foreign(name)])].join(' · ')
        terminal.line(`${id} #${seq} ${terminal.style('dim', about)}`)
        terminal.line(`    ${terminal.foreign(excerpt)}`)
      }
    })
}

type Told = Omit<SearchHit, 'snippet' | 'session_name'> & {
  /** On one line. */
  readonly excerpt: string
  /** Null where it is said already. */
  readonly session_name: string | null
}

/** A prompt is found where it was queued, and as the name that its session got from it; the sessions are told before their hits. */
export function toldOnce(hits: readonly SearchHit[], sessions: readonly Pick<Session, 'id' | 'name'>[]): readonly Told[] {
  const names = new Map(sessions.map(({ id, name }) => [id, bare(name)]))
  const told = new Set<string>()
  const isNew = ({ session, snippet }: SearchHit) => told.size < told.add(`${session} ${bare(snippet)}`).size
  const isInOther = ({ session, snippet }: SearchHit) =>
    names.get(session)?.includes(bare(snippet)) ||
    hits.some((other) => other.session === session && !isName(other) && bare(other.snippet).includes(bare(snippet)))
  return hits
    .filter((hit) => !(isName(hit) && isInOther(hit)) && isNew(hit))
    .map(({ snippet, session_name: name, ...hit }) => ({
      ...hit,
      excerpt: oneLine(snippet),
      session_name: names.has(hit.session) || bare(name) === bare(snippet) ? null : name,
    }))
}

const isName = ({ type }: SearchHit) => type === 'session.created' || type === 'session.changed'
/** Without what marks the words that were found, and where it was cut. */
const bare = (text: string) =>
  oneLine(text)
    .replaceAll(/[«»]/g, '')
    .replaceAll(/^ ?… ?| ?… ?$/g, '')
    .trim()
const oneLine = (text: string) => text.replaceAll(/(?:\r?\n)+/g, ' ')
