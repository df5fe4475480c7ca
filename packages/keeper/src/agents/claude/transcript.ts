import { Failure } from '@anchorhold/protocol/failures'
import { slownessOf } from '@anchorhold/protocol/rungs'
import type { Cell } from '../../cells/cell.ts'
import { outputOf } from '../../cells/output-of.ts'

/** What an agent remembers of a conversation. */
export type Memory = {
  readonly begun: boolean
  /** Those of the messages asked for that it holds. */
  readonly known: ReadonlySet<string>
}
export const noMemory: Memory = { begun: false, known: new Set() }

/** A conversation may be hundreds of megabytes, and is read as often as messages are looked for. */
const searchMsMax = 120_000
/** More ids of messages than can be looked for. */
const saidBytesMax = 1024 * 1024

/** Does something with the file that holds the conversation. All of it happens inside the cell, where a link leads nowhere
 *  that the agent could not go itself. Only a plain file is opened: anything else could keep a reader waiting. */
async function inTranscript(
  { cell, home, conversation }: Transcript,
  script: string,
  args: readonly string[] = [],
): Promise<{ readonly code: number; readonly said: readonly string[] }> {
  const find = `home=$1 conversation=$2; shift 2
for f in "$home"/.claude/projects/*/"$conversation".jsonl; do
  [ -f "$f" ] && grep -q '"type":"user"' "$f" || continue
  ${script}
  exit 0
done
exit 1`
  const argv = ['/bin/sh', '-c', find, 'sh', home, conversation, ...args] as const
  const process = cell.spawn(argv, { env: { PATH: '/usr/bin:/bin' }, cwd: home })
  process.stdin.end()
  const withinMs = searchMsMax * slownessOf(cell.limits)
  const { text, code } = await outputOf(process, { bytesMax: saidBytesMax, withinMs }).catch((cause: unknown) => {
    throw new Failure('wrong_state', 'Cannot look up what the agent remembers: its cell gave no answer', { cause })
  })
  return { code, said: text.split('\n') }
}

/** Where a conversation is written down: `home` as the cell sees it. */
export type Transcript = { readonly cell: Cell; readonly home: string; readonly conversation: string }

/** What the agent's home holds of the conversation. An agent that was ended before it wrote the first of it down cannot
 *  resume it, and would refuse to start. */
export async function readTranscript(transcript: Transcript, uuids: readonly string[]): Promise<Memory> {
  const script = `for uuid; do grep -qF '"uuid":"'"$uuid"'"' "$f" && echo "$uuid"; done`
  const { code, said } = await inTranscript(transcript, script, uuids)
  return code === 0 ? { begun: true, known: new Set(said.filter((line) => uuids.includes(line))) } : noMemory
}

/** An agent that takes a turn up tells itself to go on. Cut short again before it said anything, it finds its own words last
 *  and takes them for a turn that nobody waits for: they are taken out, and it finds the turn that was cut short. */
export async function forgetOwnWords(transcript: Transcript): Promise<void> {
  await inTranscript(
    transcript,
    `last=$(grep -nE '"type":"(user|assistant)"' "$f" | grep -v '"isSidechain":true' | tail -n 1 | head -c 4096)
  case $last in
    *'"text":"Continue from where you left off."'*'"isMeta":true'*)
      head -n "$((\${last%%:*} - 1))" "$f" > "$f.cut" && mv "$f.cut" "$f" ;;
  esac`,
  )
}

/** Takes out what was said after the first of these messages that is there, the newest of them being named first: an agent
 *  writes behind its work, so the last ones may not have been written down when its home was copied. */
export async function forgetAfter(transcript: Transcript, uuids: readonly string[]): Promise<void> {
  const script = `for uuid; do
    line=$(grep -nF '"uuid":"'"$uuid"'"' "$f" | head -n 1 | cut -d : -f 1)
    [ -n "$line" ] || continue
    head -n "$line" "$f" > "$f.cut" && mv "$f.cut" "$f" && exit 0
  done
  exit 2`
  const { code } = await inTranscript(transcript, script, uuids)
  if (code !== 0 && code !== 1)
    throw new Failure('conflict', 'Cannot begin the conversation where it was forked: the agent has no memory of that point')
}
