import { races, testSchedules } from './schedule.ts'

testSchedules(races, 5500, 'races of prompts against crashes')
