#!/bin/sh
# Makes a DASH presentation of a film, in several bitrates between which players choose.
#
#   video.sh FILM FOLDER
#
# FOLDER gets video.mpd and segments of two seconds.
#
# LADDER="240:400k 480:1500k 720:3M 1080:6M"   heights and bitrates, the lowest first; those that are higher than the film are left out
# PARTS=1                                      one file for each bitrate, of which players ask for ranges
# PRESET=medium                                of libx264: faster ones make worse pictures
#
# It takes ffmpeg with libx264, as Debian has it.
set -eu

film=${1:?a film}
folder=${2:?a folder for the presentation}
ladder=${LADDER:-240:400k 480:1500k 720:3M 1080:6M}

streams() {
    ffprobe -v error -select_streams "$1" -show_entries "stream=$2" -of default=noprint_wrappers=1:nokey=1 "$film"
}

highest=$(streams v:0 height)
sets=id=0,streams=v
rung=0
set --
for step in $ladder; do
    height=${step%:*} bitrate=${step#*:}
    [ "$height" -le "$highest" ] || continue
    # No second takes more than the bitrate says: players rely on it.
    set -- "$@" -map 0:v:0 "-filter:v:$rung" "scale=-2:$height" \
        "-b:v:$rung" "$bitrate" "-maxrate:v:$rung" "$bitrate" "-bufsize:v:$rung" "$bitrate"
    rung=$((rung + 1))
done
if [ "$rung" -eq 0 ]; then
    echo "$film has ${highest:-no} lines; give LADDER a height that is not above" >&2
    exit 1
fi
if [ -n "$(streams a:0 index)" ]; then
    set -- "$@" -map 0:a:0 -c:a aac -b:a 128k
    sets="$sets id=1,streams=a"
fi

mkdir -p "$folder"
# Key frames at the same times in all bitrates, one where each segment begins: only there can players switch.
exec ffmpeg -v error -nostdin -y -i "$film" "$@" \
    -c:v libx264 -preset "${PRESET:-medium}" -pix_fmt yuv420p -sc_threshold 0 -force_key_frames 'expr:gte(t,n_forced*2)' \
    -f dash -seg_duration 2 -use_template 1 -use_timeline 1 -single_file "${PARTS:-0}" -adaptation_sets "$sets" \
    "$folder/video.mpd"
