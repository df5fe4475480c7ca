// Beside tool-meaning.ts, which is all that uses it, the one file that knows a shell's grammar.
import type {
  Command,
  HereDoc,
  ParameterExpansionPart,
  ParsedScript,
  Redirected,
  Redirection,
  Statement,
  SyntaxNode,
  TestExpression,
  Word,
  WordPart,
} from 'unbash'
import { safeUnary } from './commands/effects.ts'
import { isOwnVariable } from './commands/variables.ts'

/** Which shell reads the text: bash itself, or one that may be a plain `sh`, to which some of bash's signs mean something else. */
export type Reader = 'bash' | 'any sh'

/** Whether the meaning of a text is known whole: it is made of nothing but the few shapes of shell below. A shell sets variables, reads
 *  arithmetic and runs commands in more places than anyone can list, so what is known is listed, and everything else is asked for.
 *  Invariant: a shape stands here only if it runs no commands but those that are read out of it, and changes nothing about what a later
 *  word means, whatever values its variables have. */
export function isKnownWhole(script: ParsedScript, text: string, reader: Reader): boolean {
  if (oddCharacters.test(text)) return false
  return isScript(script)

  function isScript({ commands, errors }: ParsedScript): boolean {
    return (errors === undefined || errors.length === 0) && commands.every(isKnown)
  }

  function isKnown(node: SyntaxNode): boolean {
    switch (node.type) {
      case 'Statement':
        return isKnown((node satisfies Statement).command)
      case 'CompoundList':
      case 'AndOr':
        return node.commands.every(isKnown)
      case 'Pipeline':
        return (
          node.commands.every(isKnown) &&
          (reader === 'bash' ||
            (node.operators.every((one) => one === '|') && node.prefixes.every((one) => one.type === 'Negation')))
        )
      case 'Subshell':
      case 'BraceGroup':
        return isKnown(node.body)
      case 'If':
        return (
          [node.clause, node.then, ...(node.else === undefined ? [] : [node.else])].every(isKnown) &&
          node.elif.every((one) => isKnown(one.clause) && isKnown(one.then))
        )
      case 'While':
        return isKnown(node.clause) && isKnown(node.body)
      case 'For':
        return isOwnVariable(node.name.text) && (node.wordlist ?? []).every(isWord) && isKnown(node.body)
      case 'TestCommand':
        return reader === 'bash' && isTest(node.expression)
      case 'Redirected':
        return isKnown((node satisfies Redirected).command) && node.redirects.every(isRedirection)
      case 'Command':
        return isCommand(node)
      default:
        return false
    }
  }

  function isCommand({ name, prefix, suffix }: Command): boolean {
    if (name !== undefined && !isWord(name)) return false
    const isTesting = name?.value === '[' || name?.value === 'test'
    return [...prefix, ...suffix].every((one) => {
      if (one.type === 'Word') return isWord(one) && (!isTesting || (one.parts ?? []).every(isOneWord))
      if (one.type !== 'Assignment') return isRedirection(one)
      return one.index === undefined && one.value.type === 'Word' && isWord(one.value)
    })
  }

  function isWord(word: Word): boolean {
    return (word.parts ?? []).every(isPart)
  }

  function isPart(part: WordPart): boolean {
    switch (part.type) {
      case 'Literal':
      case 'SingleQuoted':
        return true
      case 'AnsiCQuoted':
        // Of the other escapes, each shell has its own.
        return reader === 'bash' && /^\$'([^\\]|\\[\\'"nrt])*'$/s.test(part.text)
      case 'DoubleQuoted':
        return part.parts.every(isPart)
      case 'SimpleExpansion':
        return true
      case 'ParameterExpansion':
        return isParameter(part)
      case 'CommandExpansion':
        return part.script !== undefined && isScript(part.script)
      case 'ProcessSubstitution':
        return reader === 'bash' && part.operator === '<' && part.script !== undefined && isScript(part.script)
      case 'ArithmeticExpansion':
        // The value of a name would be read as arithmetic in turn.
        return /^\$\(\([\d\s+*/%()-]*\)\)$/.test(part.text)
      case 'Glob':
        return part.kind !== 'bracket' || part.parts.every((one) => one.type === 'Literal')
      case 'BraceExpansion':
        return (part.parts ?? []).every((one) => one.type !== 'BraceExpansion' && isPart(one))
      default:
        return false
    }
  }

  /** Whether it stays one word: among the words of a test, what splits may bring an operator. */
  function isOneWord(part: WordPart): boolean {
    if (part.type === 'SimpleExpansion') return /^\$[?#$]$/.test(part.text)
    if (part.type === 'ParameterExpansion') return part.prefix === '#'
    return !['CommandExpansion', 'Glob', 'BraceExpansion'].includes(part.type)
  }

  function isParameter({ parameter, prefix, index, operation }: ParameterExpansionPart): boolean {
    if (prefix === '!' || index !== undefined || !/^(\w+|[?$!@*#-])$/.test(parameter)) return false
    switch (operation?.type) {
      case undefined:
        return true
      case 'Default':
        return !operation.operator.endsWith('=') && isWord(operation.operand)
      case 'Remove':
        return isWord(operation.operand)
      case 'Replace':
        return isWord(operation.pattern) && isWord(operation.replacement)
      default:
        return false
    }
  }

  function isTest(test: TestExpression): boolean {
    switch (test.type) {
      case 'TestUnary':
        return safeUnary.test(test.operator) && isWord(test.operand)
      case 'TestBinary':
        // Others compare numbers, and so read arithmetic.
        return /^(=|==|!=|=~)$/.test(test.operator) && isWord(test.left) && isWord(test.right)
      case 'TestLogical':
        return test.operands.every(isTest)
      case 'TestNot':
        return isTest(test.operand)
      case 'TestGroup':
        return isTest(test.expression)
    }
  }

  function isRedirection(redirection: Redirection): boolean {
    const { descriptor } = redirection
    if (descriptor !== undefined && descriptor.type !== 'FileDescriptor') return false
    if (redirection.type === 'HereDoc') return isHereDoc(redirection)
    const { target } = redirection
    if (target === undefined || !isWord(target)) return false
    if (redirection.type === 'HereString') return reader === 'bash'
    // Bash takes these for connections over the network.
    if (/\/dev\/(tcp|udp)/.test(target.value)) return false
    return reader === 'bash' || !redirection.operator.startsWith('&>')
  }

  function isHereDoc({ delimiter, closing, body }: HereDoc): boolean {
    if (delimiter === undefined || closing === undefined) return false
    return delimiter.quoted || (body.parts === undefined ? !/[$`\\]/.test(body.text) : body.parts.every(isPart))
  }
}

/** Controls that shells and parsers see differently, and what looks like a blank to people and to no shell. */
// oxlint-disable-next-line no-control-regex
const oddCharacters = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\p{Cs}]|(?! )[\p{Z}\u2800]/u
