import type { Conversation } from './conversation.ts'

type Call = { readonly tool: string; readonly input: unknown }

const ending = '. Do it again now exactly as before'

/** What is to be done again, when the instruction tells that something was allowed while the agent was away: the call that it
 *  names, or the last one that was made. Null when it tells of nothing; empty when nothing was allowed. */
export function allowedAgain({ instruction, lastCall }: Pick<Conversation, 'instruction' | 'lastCall'>): readonly Call[] | null {
  if (!instruction.includes('While you were away, what you had asked for was settled.')) return null
  // Up to the last place where such a sentence ends: behind it one that begins would be looked for to the end of the text, each.
  const told = instruction.slice(0, instruction.lastIndexOf(ending) + ending.length)
  return [...told.matchAll(/allowed (your [\s\S]*?|the call of [\s\S]*?)\. Do it again now exactly as before/g)].flatMap(
    ([, what = '']) => {
      const named = /^your use of the tool (\S+) with this input: ([\s\S]*)$/.exec(what)
      if (named === null) return what.startsWith('your ') && lastCall !== null ? [lastCall] : []
      try {
        return [{ tool: named[1]!, input: JSON.parse(named[2]!) as unknown }]
      } catch {
        return []
      }
    },
  )
}
