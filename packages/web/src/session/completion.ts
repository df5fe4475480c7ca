import type { SlashCommand } from '@anchorhold/protocol/workspace'

/** What is being written at the caret that could be completed. */
export type Writing = { readonly kind: 'command' | 'file'; readonly typed: string; readonly from: number }

/** A command stands at the beginning of a prompt, a file anywhere behind an @. */
export function writingAt(text: string, caret: number): Writing | null {
  const before = text.slice(0, caret)
  const command = /^\/([\w:.-]*)$/.exec(before)
  if (command !== null) return { kind: 'command', typed: command[1]!, from: 0 }
  const file = /(?:^|\s)@([^\s@]{0,200})$/.exec(before)
  return file === null ? null : { kind: 'file', typed: file[1]!, from: caret - file[1]!.length - 1 }
}

export type Choice = { readonly insert: string; readonly label: string; readonly about: string }
const choicesMax = 8

/** What fits, the closest first: what begins so, then what has it in its name, then anywhere. */
export function choicesFor(
  { kind, typed }: Writing,
  { commands, files }: { readonly commands: readonly SlashCommand[]; readonly files: readonly string[] },
): readonly Choice[] {
  const all =
    kind === 'command'
      ? commands.map(({ name, description, hint }) => ({
          insert: `/${name} `,
          label: `/${name}${hint === '' ? '' : ` ${hint}`}`,
          about: description,
          word: name,
        }))
      : files.map((path) => ({ insert: `@${path} `, label: path, about: '', word: path }))
  const wanted = typed.toLowerCase()
  const rank = (word: string) => {
    const [whole, name] = [word.toLowerCase(), word.slice(word.lastIndexOf('/') + 1).toLowerCase()]
    return name.startsWith(wanted) ? 0 : whole.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : whole.includes(wanted) ? 3 : 4
  }
  return all
    .map((choice) => ({ choice, rank: rank(choice.word) }))
    .filter((one) => one.rank < 4)
    .sort((a, b) => a.rank - b.rank || a.choice.word.length - b.choice.word.length)
    .slice(0, choicesMax)
    .map(({ choice: { insert, label, about } }) => ({ insert, label, about }))
}

/** The text with the choice in place of what was typed, and where the caret goes. */
export function completed(
  text: string,
  caret: number,
  { from }: Writing,
  { insert }: Choice,
): { readonly text: string; readonly caret: number } {
  return { text: `${text.slice(0, from)}${insert}${text.slice(caret).replace(/^ /, '')}`, caret: from + insert.length }
}
