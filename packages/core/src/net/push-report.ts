import type { Push } from './receive-pack.ts'

/** What a git server says of a push that it has not taken (https://git-scm.com/docs/pack-protocol#_report_status): for each ref why, so
 *  that git shows it to who pushes. Null when git did not ask to be told. */
export function refusedPush({ commands, capabilities }: Push, whyOf: (ref: string) => string, remark: string): string | null {
  if (!capabilities.some((name) => name === 'report-status' || name === 'report-status-v2')) return null
  const report = `${line('unpack ok\n')}${commands.map(({ ref }) => line(`ng ${plain(ref)} ${plain(whyOf(ref))}\n`)).join('')}0000`
  if (!capabilities.includes('side-band-64k') && !capabilities.includes('side-band')) return report
  const most = capabilities.includes('side-band-64k') ? 65_515 : 995
  return `${line(`\u0002${plain(remark)}\n`)}${pieces(report, most)
    .map((piece) => line(`\u0001${piece}`))
    .join('')}0000`
}

/** What a git server says before a push when there will be none. */
export const refusedService = (service: string, why: string): string =>
  `${line(`# service=${service}\n`)}0000${line(`ERR ${plain(why)}\n`)}`

/** A pkt-line: its own length in front. */
const line = (text: string): string => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`

/** One line of ASCII, so that its length in bytes is its length in characters, wherever it is cut. */
const plain = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 1500)

const pieces = (text: string, most: number): string[] =>
  Array.from({ length: Math.ceil(text.length / most) }, (_, at) => text.slice(at * most, (at + 1) * most))
