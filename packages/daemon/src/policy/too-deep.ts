const depthMax = 100

/** The line where a text is nested deeper than any policy, so that no parser has to follow it there. */
export function tooDeep(text: string): number | null {
  let depth = 0
  for (const [index, line] of text.split('\n').entries()) {
    // A blank between two marks belongs to the second: if it could be either's, a line would be read in 2^49 ways.
    if (/^ {400}/.test(line) || /^(?:\s*[-?]){50}/.test(line)) return index + 1
    for (const character of line) {
      if (character === '[' || character === '{') depth++
      else if (character === ']' || character === '}') depth--
      if (depth > depthMax) return index + 1
    }
  }
  return null
}
