// Ends what is left of cells whose keepers died, and empties the folders that their drivers kept.
//   node reap.mjs FOLDER…
import { reapCell } from './cells/reap.ts'

for (const scratch of process.argv.slice(2)) await reapCell(scratch)
