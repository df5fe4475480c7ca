import type { ShellWord } from '../patterns.ts'

/** Variables that programs read, and that tell none of them what to run or to load. */
const harmlessVariables =
  /^(NODE_ENV|CI|FORCE_COLOR|NO_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|TZ|DEBUG|PORT|HOST|VERBOSE|LOG_LEVEL|RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|CARGO_INCREMENTAL|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|GOOS|GOARCH|CGO_ENABLED|HUSKY|DO_NOT_TRACK|NEXT_TELEMETRY_DISABLED|GIT_TERMINAL_PROMPT)$/
export const isHarmlessVariable = (name: string, value: ShellWord): boolean =>
  value !== null &&
  (harmlessVariables.test(name) ||
    // In another locale, other bytes are blanks to a shell.
    (/^(LANG|LC_[A-Z]+)$/.test(name) && /^(C|POSIX|(C|[a-z]{2}_[A-Z]{2})\.(UTF-8|utf8))$/.test(value)) ||
    (name === 'NODE_OPTIONS' && /^--max[-_]old[-_]space[-_]size=\d+$/.test(value)))
export function isHarmlessSetting(word: ShellWord | undefined): boolean {
  const [, name, value] = /^(\w+)=(.*)$/s.exec(word ?? '') ?? []
  return name !== undefined && value !== undefined && isHarmlessVariable(name, value)
}

/** Variables by which no program is known to be told anything: small letters, but for the few that programs read. */
export const isOwnVariable = (name: string): boolean =>
  /^[a-z_][a-z0-9_]*$/.test(name) && name !== '_' && !/_proxy$|^npm_|^histchars$|^auto_resume$/.test(name)
