/** Makes text from a cell, a repository or a web page safe to show: what would move the cursor, hide text or turn
 *  its direction becomes visible instead. Line feeds and tabs stay. */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => visible(character))
}

/** The same for one line: a line feed is made visible too. */
export const printableLine = (text: string): string => printable(text).replaceAll('\n', '␊').replaceAll('\t', ' ')

// Controls but \t and \n; soft hyphen; Arabic letter mark; Mongolian vowel separator; zero-width and direction marks;
// line and paragraph separators; direction overrides and isolates; word joiner and the invisible operators; BOM;
// interlinear marks; lone surrogates; tag characters; variation selectors beyond those that emoji use.
const unprintable =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufe00-\ufe0e]|[\u{e0000}-\u{e0fff}]|[\u{1d173}-\u{1d17a}]|[\ud800-\udfff]/gu

function visible(character: string): string {
  const code = character.codePointAt(0) ?? 0
  // The control pictures block shows C0 as one cell each; all else is named by its number.
  if (code < 0x20) return String.fromCodePoint(0x2400 + code)
  if (code === 0x7f) return '␡'
  return `\\u{${code.toString(16)}}`
}
