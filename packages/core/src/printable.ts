/** Makes text from a cell, a repository or a web page safe to show: what would move the cursor, hide text or turn
 *  its direction becomes visible instead. Line feeds and tabs stay. */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => visible(character))
}

/** The same where it matters which space it is: to a shell or a path it makes a difference. */
export const printableExactly = (text: string): string => printable(text).replace(otherSpaces, visible)

/** The same for one line, in which what looks like a space is one. */
export const printableLine = (text: string): string => printableExactly(text).replaceAll('\n', '␊').replaceAll('\t', ' ')

// Controls but \t and \n; whatever formats, or is not shown where it is not known; line and paragraph separators; lone surrogates. The
// variation selector of emoji stays behind one.
const unprintable =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|(?!\ufe0f)\p{Default_Ignorable_Code_Point}|(?<!\p{Extended_Pictographic})\ufe0f|[\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu
// The last is a pattern of Braille without a dot.
const otherSpaces = /(?! )[\p{Zs}\u2800]/gu

function visible(character: string): string {
  const code = character.codePointAt(0) ?? 0
  // The control pictures block shows C0 as one cell each; all else is named by its number.
  if (code < 0x20) return String.fromCodePoint(0x2400 + code)
  if (code === 0x7f) return '␡'
  return `\\u{${code.toString(16)}}`
}
