import type { Action, NetAction } from '@anchorhold/protocol/actions'
import type { Rule } from '@anchorhold/protocol/policy'
import { toolNamed } from '../agents/tools.ts'
import type { ShellWord } from './patterns.ts'

/** One command that a shell would run. */
export type ShellCommand = {
  readonly words: readonly ShellWord[]
  /** Nothing but the words tells what it does: no variable is set for it, no file is written by the shell. Only such a command can
   *  be allowed by what a rule says of commands. */
  readonly plain: boolean
  /** One of several readings: what would deny it or ask for it counts, and nothing is needed to allow it. */
  readonly guess?: true
  /** It does nothing: nothing is needed to allow it beside another. */
  readonly idle?: true
}

/** An action together with what was found out about it, so that deciding needs no parser. */
export type Meaning = {
  readonly action: Action
  /** Every command that a shell tool would run; null for other tools. */
  readonly commands: readonly ShellCommand[] | null
  /** The file or folder that a tool is about, by each name that a rule may give it. */
  readonly paths: readonly string[]
  /** Where the tool looks at all that lies below: its folder, and those that it comes through from above, by the same names. */
  readonly searches: readonly string[]
}

/** The meaning of an action that runs no shell. */
export const plainMeaning = (action: Action): Meaning => ({ action, commands: null, paths: [], searches: [] })

/** The unknown: anything may be run. */
export const anything: ShellCommand = { words: [null], plain: false }

/** A rule that was written for a name that a tool had before means the tool. */
export const toolName = (name: string): string => toolNamed(name).now ?? name

/** A host as it is compared: lower case, without the root's dot or an address's brackets. A star before a dot says what the dot says
 *  alone: all that lies below. */
export const hostName = (host: string): string =>
  host
    .toLowerCase()
    .replace(/\.$/, '')
    .replace(/^\*\./, '.')
    .replace(/^\[(.*)\]$/, '$1')

type NetRule = Extract<Rule, { readonly on: 'net' }>

/** Whether a rule speaks of a port. An allowance that names none is for the ports of http and https: who writes a host down has web pages
 *  in mind, not whatever else listens there. What is stricter holds for every port. */
export const fitsPort = ({ effect, match: { port } }: NetRule, actual: number): boolean =>
  port === undefined ? effect !== 'allow' || schemePorts.includes(actual) : port === actual
const schemePorts: readonly number[] = [80, 443]

/** The ways in which a server may read a path: as it stands, decoded with its dots and double slashes resolved, and both without what
 *  follows a semicolon in a name (`/admin;x=1/users` is `/admin/users` to Java's servers). With and without the query, because a rule
 *  may speak of either. */
export function netPaths({ path }: Pick<NetAction, 'path'>): readonly { readonly path: string; readonly whole: string }[] {
  if (path === null) return []
  const cut = path.search(/[?#]/)
  const bare = cut === -1 ? path : path.slice(0, cut)
  const query = cut === -1 ? '' : path.slice(cut)
  // Twice, because some servers do.
  const resolved = resolvePath(decodeOnce(decodeOnce(bare)).replaceAll('\\', '/'))
  const readings = [bare, resolved].flatMap((one) => (one.includes(';') ? [one, resolvePath(withoutParameters(one))] : [one]))
  return [...new Set(readings)].map((one) => ({ path: one, whole: one + query }))
}

const withoutParameters = (path: string): string => path.replaceAll(/;[^/]*/g, '')

/** What is in percent form, decoded; also beside what is no text, which must not hide the rest. */
export function decodeOnce(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text.replaceAll(/%[0-7][0-9a-f]/gi, decodeURIComponent)
  }
}

/** Dots and double slashes taken out, from the root on. */
export function resolvePath(path: string): string {
  const kept: string[] = []
  for (const name of path.split('/')) {
    if (name === '..') kept.pop()
    else if (name !== '' && name !== '.') kept.push(name)
  }
  return `/${kept.join('/')}${path.endsWith('/') && kept.length > 0 ? '/' : ''}`
}
