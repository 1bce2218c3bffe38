# Reads file names, prints "keep:NAME" or "drop:NAME" for each backup among them.

function week_of(date) {
    return int((substr(date, 5, 2) * 30 + substr(date, 7, 2)) / 7)
}

match($0, /-[0-9]+-[0-9]+\.tar\.gz/) {
    names[++count] = $0
    series[count] = substr($0, 1, RSTART - 1)
    stamp[count] = substr($0, RSTART + 1, 13)
}

END {
    for (i = count; i >= 1; i--) {
        name = series[i]
        date = substr(stamp[i], 1, 8)
        keep = 0
        if (!(name in newest)) {
            newest[name] = 1
            keep = 1
        }
        if (!(date in day_seen) && day_count[name] < days) {
            day_seen[date] = 1
            day_count[name]++
            keep = 1
        }
        week = week_of(date)
        if (!(week in week_seen) && week_count[name] < weeks) {
            week_seen[week] = 1
            week_count[name]++
            keep = 1
        }
        month = substr(date, 5, 2)
        if (!(month in month_seen) && month_count[name] < months) {
            month_seen[month] = 1
            month_count[name]++
            keep = 1
        }
        verdict[i] = keep ? "keep" : "drop"
    }
    for (i = 1; i <= count; i++)
        print verdict[i] ":" names[i]
}
