// Ends what is left of a cell whose keeper died, and empties the folder that its driver kept: the one that this process was started in.
//   node reap.mjs FOLDER
import { reapCell } from './cells/reap.ts'

// What is there is the word of a cell's user, and as root it could be acted upon anywhere.
if (process.getuid?.() === 0) throw new Error('What a cell has left is cleared away by its user, and never by root')
// The name is only for who knows the cell by it. By now it may lead elsewhere.
for (const scratch of process.argv.slice(2, 3)) await reapCell(scratch, undefined, '.')
