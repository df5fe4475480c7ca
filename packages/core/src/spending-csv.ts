import type { Spending } from '@anchorhold/protocol/api/money'

/** What was spent, as a table for a spreadsheet. Sums are exact: dollars with nine decimals. */
export function spendingCsv(by: string, rows: readonly Spending[]): string {
  const head = [by, 'name', 'simulated', 'calls', 'input', 'output', 'cache_read', 'cache_write', 'cost_usd']
  const lines = rows.map(({ key, name, simulated, calls, tokens, cost_nanos }) => [
    key,
    name ?? '',
    String(simulated),
    ...[calls, tokens.input, tokens.output, tokens.cache_read, tokens.cache_write].map(String),
    usd(cost_nanos),
  ])
  return [head, ...lines].map((line) => `${line.map(field).join(',')}\r\n`).join('')
}

const usd = (nanos: number) => `${Math.floor(nanos / 1e9)}.${String(nanos % 1e9).padStart(9, '0')}`

/** RFC 4180. A spreadsheet takes what begins like this for a formula: names come from people and agents. */
function field(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
