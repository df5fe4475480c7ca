import type { Rule } from '@anchorhold/protocol/policy'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import { printableActionLine } from '../printable.ts'
import { patternWord, type ShellWord } from './patterns.ts'

const wordsMax = 1500

/** A rule in one line, as people read it. */
export function ruleWords(rule: Rule): string {
  const { effect, why, step_up } = rule
  const words = `${effect} ${matchWords(rule)}${step_up === true ? ', with a fresh proof' : ''}`
  return printableActionLine(why === undefined ? words : `${words} (${why})`).slice(0, wordsMax)
}

function matchWords(rule: Rule): string {
  const { on, match } = rule
  switch (on) {
    case 'tool':
      return [
        match.tool ?? (match.command === undefined ? 'any tool' : ''),
        match.command === undefined ? '' : `"${match.command}"`,
        match.path === undefined ? '' : `on ${match.path}`,
        ...fields(match.input),
      ]
        .filter((word) => word !== '')
        .join(' ')
    case 'net':
      return [
        'net',
        [match.method ?? []].flat().join('|'),
        `${match.host}${match.port === undefined ? '' : `:${match.port}`}${match.path ?? ''}`,
        match.any_case === true ? 'in any case' : '',
        rule.only_ours === true ? 'with none of the credentials that a cell brings' : '',
        rule.preset === undefined ? '' : `by preset ${rule.preset}`,
      ]
        .filter((word) => word !== '')
        .join(' ')
    case 'host':
      return ['host', match.program, ...fields(match.params)].join(' ')
    case 'spend':
      return [
        'spend',
        match.provider ?? '',
        match.model ?? 'any model',
        match.above_nanos === undefined ? '' : `above ${formatUsd(microsUp(match.above_nanos))}`,
      ]
        .filter((word) => word !== '')
        .join(' ')
  }
}

const fields = (match: Readonly<Record<string, string>> | undefined): string[] =>
  Object.entries(match ?? {}).map(([name, glob]) => `${name}=${glob}`)

/** A command as people read it; what only the run tells is shown as an ellipsis. */
export const commandWords = (words: readonly ShellWord[]): string =>
  words.length === 0
    ? 'shell that may do more than its words tell: set a variable, write a file, run a program'
    : printableActionLine(words.map((word) => (word === null ? '…' : patternWord(word))).join(' ')).slice(0, wordsMax)
